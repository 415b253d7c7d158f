/* page.h - the page at /, one file, and the Content-Security-Policy it is sent with: nothing but its own
 * style and script runs, and it talks to this server alone. Written by tools/embed-page.sh from
 * server/page/. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[]; /* [page_html_len], UTF-8 */
extern const size_t page_html_len;
extern const char page_policy[];

#endif
