/* Copyright (c) 2026 The boost_rdma authors
 * Distributed under the Boost Software License, Version 1.0. (See LICENSE)
 *
 * Two processes exchange messages of 1 B to 1 MiB by MPI and check the contents.
 * test/programs/suite compiles and runs it.
 */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

static char buffer[1 << 20];

static long wrong_bytes(int size, char expected)
{
  long wrong = 0;
  for (int i = 0; i != size; ++i)
    wrong += buffer[i] != expected;
  return wrong;
}

int main(int argc, char** argv)
{
  int rank = 0;
  long wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int size = 1; size <= (int)sizeof buffer; size *= 4)
    for (char i = 0; i != 20; ++i)
      for (int sender = 0; sender != 2; ++sender)
        if (rank == sender)
        {
          memset(buffer, i, (size_t)size);
          MPI_Send(buffer, size, MPI_CHAR, 1 - sender, i, MPI_COMM_WORLD);
        }
        else
        {
          memset(buffer, ~i, (size_t)size);
          MPI_Recv(buffer, size, MPI_CHAR, sender, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          wrong += wrong_bytes(size, i);
        }
  MPI_Finalize();
  printf("rank %d: %ld wrong bytes\n", rank, wrong);
  return wrong != 0;
}
