/* pages.h - cells of a conversation in pages that several owners can share, read-only.
 *
 * A page holds BE_PAGE positions of everything that is kept per position (K and V of all layers, raw
 * and pooled indexer keys), at offsets that its owner knows. Who writes cells makes their pages its
 * own first; a page with other owners is then copied. So a checkpoint, or another conversation that
 * starts from one, costs references and no copies until one of them writes into a page.
 *
 * 1. page[i] is readable where i * BE_PAGE is below what its owner wrote; NULL: nothing was.
 * 2. A page with more than one owner is never written.
 * 3. Owners may live in different threads; one pages object has one user at a time.
 */
#ifndef STATE_PAGES_H
#define STATE_PAGES_H

#include "backend/backend.h"
#include "base/err.h"

typedef struct page_owner page_owner; /* the shared part of a page: its bytes and their owners */

typedef struct {
    backend *be; /* borrowed */
    size_t page_bytes;
    int n_page;         /* most pages */
    void **page;        /* [n_page] device memory, for kernels; NULL: absent */
    page_owner **owner; /* [n_page] */
} pages;

/* For n_cell > 0 positions, none present. page_bytes 0: nothing is kept per position, and no page is ever
 * present. Errors: NOMEM. */
ft_status pages_init(pages *p, backend *be, size_t page_bytes, int n_cell,
                     ft_error *err) MUST_CHECK;
void pages_deinit(pages *p); /* {0} is allowed */
/* Make positions first .. first + n - 1 writable: absent pages are allocated (zeroed), shared ones
 * copied. Errors: NOMEM; what is readable is unchanged. */
ft_status pages_reserve(pages *p, int first, int n, ft_error *err) MUST_CHECK;
/* They are all p's own. */
bool pages_writable(const pages *p, int first, int n);
/* Let go of the pages that lie wholly at or past position n. */
void pages_truncate(pages *p, int n);
/* dst, of the same page_bytes, holds src's pages of positions below n and no others afterwards. n is
 * at most what dst can hold. */
void pages_share(pages *dst, const pages *src, int n);

/* Bytes of the pages present, and of those among them that have other owners too. */
size_t pages_bytes(const pages *p);
size_t pages_shared_bytes(const pages *p);
/* Who counts bytes of many pages objects counts each page once: sets the mark of page i and returns what
 * was there before (0 for a new page; mark itself where none is). Callers agree on one lock. */
uint64_t pages_mark(pages *p, int i, uint64_t mark);

#endif
