//
// Copyright (c) 2026 The boost_rdma authors
//
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)
//

#ifndef BOOST_RDMA_TEST_SOFTWARE_TLS_HPP
#define BOOST_RDMA_TEST_SOFTWARE_TLS_HPP

#include <boost/asio/ssl/context.hpp>

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <stdexcept>

namespace test {

/// Prepares a server's TLS context with a self-signed certificate that is valid for an hour.
inline void certify(boost::asio::ssl::context& context)
{
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
    EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509* const made = certificate.get();
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), -60);
  X509_gmtime_adj(X509_getm_notAfter(made), 3600);
  X509_NAME* const name = X509_get_subject_name(made);
  const auto* const text = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(made, name);
  X509_set_pubkey(made, key.get());
  if (X509_sign(made, key.get(), EVP_sha256()) == 0
    || SSL_CTX_use_certificate(context.native_handle(), made) != 1
    || SSL_CTX_use_PrivateKey(context.native_handle(), key.get()) != 1)
    throw std::runtime_error("cannot make a certificate");
}

} // namespace test

#endif // BOOST_RDMA_TEST_SOFTWARE_TLS_HPP
