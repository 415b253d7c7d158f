#!/bin/bash
# embed-page.sh FOLDER - writes a C file with the server's page to standard output: page.html with page.css
# in its empty <style> and tokens.js and page.js in its empty <script>, and the Content-Security-Policy
# that allows exactly these two, by their hashes (CSP level 3, section 2.3.1), and requests to the server
# itself. See server/page.h.
set -euo pipefail
export LC_ALL=C

dir=$1
page=$(mktemp -d)
trap 'rm -rf "$page"' EXIT

# An element's text starts behind its tag, with the line break.
{ echo && cat "$dir/page.css"; } >"$page/style"
{ echo && cat "$dir/tokens.js" "$dir/page.js"; } >"$page/script"
for part in style script; do
    [ "$(grep -c "^<$part>\$" "$dir/page.html")" = 1 ] ||
        { echo "embed-page: $dir/page.html: want one line '<$part>'" >&2 && exit 1; }
    if grep -qi "</$part" "$page/$part"; then
        echo "embed-page: the $part holds its own end tag" >&2
        exit 1
    fi
done

hash_of() {
    printf "$(sha256sum <"$1" | cut -c1-64 | sed 's/../\\x&/g')" | base64
}

bytes_of() {
    od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g'
}

echo '/* Made by tools/embed-page.sh. */'
echo '#include "server/page.h"'
echo 'const unsigned char page_html[] = {'
awk -v folder="$page" '
    { print }
    /^<(style|script)>$/ {
        file = folder "/" substr($0, 2, length($0) - 2)
        getline line <file # the line break behind the tag is there already
        while ((getline line <file) > 0)
            print line
    }' "$dir/page.html" | bytes_of
echo '};'
echo 'const size_t page_html_len = sizeof page_html;'
echo 'const char page_policy[] ='
echo "    \"default-src 'none'; script-src 'sha256-$(hash_of "$page/script")'; \""
echo "    \"style-src 'sha256-$(hash_of "$page/style")'; connect-src 'self'; img-src data:; \""
echo "    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\";"
