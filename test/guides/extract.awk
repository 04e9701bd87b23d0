# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

# awk -v root=PROJECT -v page=doc/X.md -f extract.awk PROJECT/doc/X.md > X.cpp
#
# Prints the C++ blocks of a page as one translation unit. By default a block contains the statements of a coroutine
# and can use the declarations of prelude.hpp. An HTML comment before the fence, which readers do not see, changes this:
#
#   <!-- given: CODE -->           inserts CODE before the block: the declarations that the block assumes
#   <!-- at file scope -->         the block contains functions, classes or a whole program
#   <!-- in the same scope -->     the block continues the scope of the page's previous block
#   <!-- from: PATH -->            the block is a quotation, line by line, of that file, which is compiled elsewhere
#   <!-- not compiled: REASON -->  the block is another library's code, or not C++

function fail(text) {
  print page ":" FNR ": " text > "/dev/stderr"
  failed = 1
}

function trimmed(text) {
  gsub(/^[ \t]+|[ \t\r]+$/, "", text)
  return text
}

# Stores the effect of a complete hint.
function take_hint(text) {
  text = trimmed(text)
  if (text ~ /^given:/) { given = given substr(text, 7) "\n"; hints++ }
  else if (text == "at file scope") { at_file_scope = 1; hints++ }
  else if (text == "in the same scope") { same_scope = 1; hints++ }
  else if (text ~ /^from:/) { from = trimmed(substr(text, 6)); hints++ }
  else if (text ~ /^not compiled:/) { left_out = 1; hints++ }
}

function forget_hints() {
  given = ""; from = ""; at_file_scope = 0; same_scope = 0; left_out = 0; hints = 0
}

function close_scope() {
  # The inner scope allows a block to redeclare names of prelude.hpp.
  if (scope == "coroutine") code = code "\n}\nco_return;\n}\n}\n"
  else if (scope == "file") code = code "\n}\n"
  scope = ""
}

# Moves includes to the top of the translation unit, because each block is in its own namespace.
function without_includes(text,    lines, n, i, kept) {
  n = split(text, lines, "\n")
  kept = ""
  for (i = 1; i <= n; i++) {
    if (lines[i] ~ /^[ \t]*#[ \t]*include/) {
      includes = includes lines[i] "\n"
      kept = kept "\n"
    } else kept = kept lines[i] (i < n ? "\n" : "")
  }
  return kept
}

function line_directive(number, name) { return "\n#line " number " \"" name "\"\n" }

# Returns 1 if the file contains the block's lines consecutively, with any indentation.
function stands_in(file, text,    lines, n, i, j, there, line, count, status) {
  n = split(text, lines, "\n")
  while (n > 0 && trimmed(lines[n]) == "") n--
  count = 0
  while ((status = (getline line < (root "/" file))) > 0) there[++count] = trimmed(line)
  close(root "/" file)
  if (status < 0) { fail("the file " file " does not exist"); return 1 }
  for (i = 1; i + n - 1 <= count; i++) {
    for (j = 1; j <= n && there[i + j - 1] == trimmed(lines[j]); j++) {}
    if (j > n) return 1
  }
  return 0
}

function take_block() {
  blocks++
  if (left_out) { uncompiled++; return }
  if (from != "") {
    if (!stands_in(from, block)) fail("the preceding block is not a quotation of " from "; copy its lines again")
    quoted++
    return
  }
  compiled++
  if (same_scope) {
    if (scope == "") { fail("\"in the same scope\" needs a block before it"); return }
  } else {
    close_scope()
    number++
    if (at_file_scope) {
      scope = "file"
      code = code "\nnamespace block_" number " {\n"
    } else {
      scope = "coroutine"
      code = code "\nnamespace block_" number " {\nasio::awaitable<void> block(BOOST_RDMA_GUIDE_NAMES)\n{\n{\n"
    }
  }
  if (given != "") code = code line_directive(first, page " (given)") without_includes(given)
  code = code line_directive(first, page) without_includes(block)
}

in_block {
  if ($0 ~ /^[ \t]*```[ \t]*$/) { in_block = 0; take_block(); forget_hints() }
  else block = block $0 "\n"
  next
}
in_other {
  if ($0 ~ /^[ \t]*```[ \t]*$/) { in_other = 0; forget_hints() }
  next
}
in_hint {
  if (match($0, /-->/)) { take_hint(hint "\n" substr($0, 1, RSTART - 1)); in_hint = 0 }
  else hint = hint "\n" $0
  next
}
/^[ \t]*<!--/ {
  text = $0
  sub(/^[ \t]*<!--/, "", text)
  if (match(text, /-->/)) take_hint(substr(text, 1, RSTART - 1))
  else { in_hint = 1; hint = text }
  next
}
/^[ \t]*```cpp/ { in_block = 1; block = ""; first = FNR + 1; next }
/^[ \t]*```(c|C|c\+\+|cc)?[ \t]*$/ && /```./ { fail("mark a block of C or C++ with ```cpp") }
/^[ \t]*```/ { in_other = 1; next }
{ if (hints && trimmed($0) != "") { forget_hints() } }

END {
  close_scope()
  if (in_block || in_other || in_hint) fail("the page ends within a block or a comment")
  print "// Made from " page ".\n#include \"guides/prelude.hpp\"\n" includes
  # A namespace of its own: several pages are compiled as one translation unit.
  scope_of_page = page
  gsub(/[^A-Za-z0-9]/, "_", scope_of_page)
  print "namespace {\nnamespace page_" scope_of_page " {\n" code "\n}\n}"
  printf "%s: %d blocks compiled, %d quoted from files, %d left out\n", page, compiled, quoted, uncompiled > "/dev/stderr"
  if (failed) exit 1
}
