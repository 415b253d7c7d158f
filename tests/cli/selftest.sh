#!/bin/bash
# selftest.sh - `foretoken selftest sampling`: the table, its verdict, and that both sides are there.
. tests/cli/common.bash

good selftest sampling --texts 20000
for words in "plain         none" "coupled       ordinary " "coupled       ordinary, argmax" \
    "block         reduced" "block         blind" "ratio         wrong" "ratio         unlikely" \
    "greedy-match  ordinary" "greedy-match  chain, argmax"; do
    has "$tmp/out" "$words"
done
has "$tmp/out" "24 of 24 lines as they must be: passed"
[ "$(grep -c 'ok$' "$tmp/out")" -eq 22 ] || fail "lines of exact rules: $(grep -c 'ok$' "$tmp/out")"
[ "$(grep -c 'seen to be none$' "$tmp/out")" -eq 2 ] || fail "lines of greedy-match"
[ ! -s "$tmp/err" ] || fail "messages of a good run: $(cat "$tmp/err")"
cp "$tmp/out" "$tmp/first"
good selftest sampling -n 20000 -s 1
same "$tmp/out" "$tmp/first"
good selftest sampling -n 20000 --seed 18446744073709551615
cmp -s "$tmp/out" "$tmp/first" && fail "another seed gives the same figures"

# Greedy-match with the model's own greedy chain: 3 tokens per round and another distribution; the exact
# rules get 1.8 with it.
good selftest sampling -n 20000 --json
json "$tmp/out"
[ "$(value "$tmp/out" texts)" -eq 20000 ] || fail "texts: $(value "$tmp/out" texts)"
rows=$(perl -0777 -e '
    $_ = <STDIN>;
    my $n = 0;
    while (/(\{[^{}]*\})/g) {
        my %r = $1 =~ /"(\w+)":\s*"?([^",\s}]+)/g;
        my $off = $r{variation} / $r{limit};
        my $exact = $r{rule} ne "greedy-match";
        die "$r{rule} $r{drafter}: $off\n" if $exact ? $off >= 1 : $off <= 1;
        die "$r{rule} $r{drafter}: not so\n" if $r{passed} ne "true" || ($r{exact} eq "true") != $exact;
        $n++;
        next if $r{drafter} ne "chain";
        die "$r{rule}: $r{tokens_per_round}\n" if abs($r{tokens_per_round} - ($exact ? 1.83 : 3)) > 0.05;
        die "chain: $r{variation}\n" if !$exact && abs($r{variation} - 0.79) > 0.03;
    }
    print $n;' <"$tmp/out") || fail "a row is not as it must be"
[ "$rows" = 24 ] || fail "$rows rows, want 24"

bad 2 "usage: foretoken selftest sampling" selftest
bad 2 "usage: foretoken selftest sampling" selftest smapling
bad 2 "--texts: '19999' is not a whole number from 20000 to 10000000" selftest sampling --texts 19999
bad 2 "--seed" selftest sampling --seed -1
good selftest sampling --help
for option in --texts --seed --json; do
    has "$tmp/out" "$option "
done
without_reader selftest sampling -n 20000
[ $rc -eq 0 ] || fail "a reader that went away: $rc"
finish
