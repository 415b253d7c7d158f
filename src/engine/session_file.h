/* session_file.h - the format of session files, and reading one from untrusted bytes. Private to engine/.
 *
 * All numbers are little endian; values of cells and states are the machine's little-endian floats,
 * copied as they are. Sections follow each other without gaps, so that every byte of a file is a
 * number that is checked or is covered by a checksum (XXH3, 64 bit).
 *
 *      0  "\x89" "FTses\r\n"   8 bytes, which a transfer as text would damage
 *      8  u32 version          1
 *     12  u32 order            0x01020304
 *     16  u32 n_section
 *     20  u32 0
 *     24  u64 n_bytes          of the whole file
 *     32  u64 checksum         of bytes 0 .. 31 and of the table
 *     40  table                n_section x { char tag[4]; i32 n_tok; u64 offset, size, checksum }
 *         sections             in the order of the table
 *         "FTend\r\n\0"        8 bytes
 *
 *     tag   n_tok  content
 *     HEAD  0      file_settings: the model, the settings, counts
 *     IDS   n      i32 [n] tokens evaluated
 *     CELL  n      seq_cells_write of positions 0 .. n - 1, in the type of the file
 *     RECU  n      seq_recurrent_write: the state behind them
 *     DRAF  n      draft_write; absent without a drafter
 *     CREC  k      for each checkpoint, k ascending, 1 <= k <= n: its recurrent part (its ids and cells
 *     CDRA  k      are the session's first k), and its drafter; CDRA absent without a drafter
 *
 * 1. session_file_open returns OK only for a file that is whole: sizes add up, all checksums are right,
 *    all numbers of HEAD are in range and agree with the table.
 * 2. What sections hold, beyond that, is checked by who reads them.
 */
#ifndef ENGINE_SESSION_FILE_H
#define ENGINE_SESSION_FILE_H

#include "base/dtype.h"
#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "session files are read in place");

enum {
    SESSION_FILE_VERSION = 1,
    SESSION_FILE_ORDER = 0x01020304,
    SESSION_FILE_CHECKPOINTS = 1000, /* most in a file */
    SESSION_FILE_SECTIONS = 5 + 2 * SESSION_FILE_CHECKPOINTS,
    SESSION_FILE_CTX = 1 << 24, /* most tokens */
};

typedef struct {
    uint8_t magic[8];
    uint32_t version, order, n_section, zero;
    uint64_t n_bytes, checksum;
} file_head;
_Static_assert(sizeof(file_head) == 40, "file layout");

typedef struct {
    char tag[4];
    int32_t n_tok;
    uint64_t offset, size, checksum;
} file_section;
_Static_assert(sizeof(file_section) == 32, "file layout");

/* Texts have a NUL and zeros behind them. */
typedef struct {
    uint64_t model_fingerprint, draft_fingerprint; /* the latter 0 without a drafter */
    char arch[32], name[128];
    char kv_type[16], cell_type[16]; /* of the session, of the file's cells */
    int32_t n_past;
    int32_t pending; /* a token that was decided and not evaluated; -1: none */
    int32_t n_dropped;
    int32_t inexact;
    int32_t has_drafter;
    int32_t sink, window; /* of the drafter; 0 without one */
    int32_t n_checkpoint;
} file_settings;
_Static_assert(sizeof(file_settings) == 240, "file layout");

extern const uint8_t session_file_magic[8], session_file_end[8];
uint64_t session_file_checksum(const void *bytes, size_t n);
/* Of a head, its first 32 bytes, and the n sections of its table. */
uint64_t session_file_head_checksum(const void *head, const void *table, size_t n);
/* "f32", "f16", "q8_0": types of cells as parameters spell them. */
const char *session_file_type_name(dtype type);
/* Are cells of this type the session's, bit for bit? F16 fits into F32. */
bool session_file_exact(dtype cell_type, dtype kv_type);

/* A whole and consistent file. */
typedef struct {
    const uint8_t *bytes; /* [n_bytes], borrowed */
    size_t n_bytes;
    int n_section;
    file_settings set;
    dtype kv_type, cell_type;
    int n_checkpoint;
    bool has_drafter;
} session_file;

/* Check bytes [n], which stay where they are. Errors: FORMAT (names section and offset), MISMATCH (a version
 * of another time). */
ft_status session_file_open(session_file *f, const uint8_t *bytes, size_t n,
                            ft_error *err) MUST_CHECK;
/* Section i of the table. */
file_section session_file_section(const session_file *f, int i);
/* Places in the table. */
enum { SECTION_HEAD, SECTION_IDS, SECTION_CELL, SECTION_RECU, SECTION_DRAF };
int session_file_checkpoint(const session_file *f,
                            int i); /* of the i-th CREC; its CDRA is behind it */

/* Reading a section from its start; a snap_read_fn. */
typedef struct {
    const session_file *f;
    file_section section;
    uint64_t done;
} section_reader;
section_reader section_open(const session_file *f, int i);
ft_status section_read(void *ctx, void *bytes, size_t n, ft_error *err) MUST_CHECK;
/* All of it was read, or FORMAT. */
ft_status section_end(const section_reader *r, ft_error *err) MUST_CHECK;
/* It has this size, or FORMAT. */
ft_status section_expect(const session_file *f, int i, uint64_t size, ft_error *err) MUST_CHECK;

#endif
