package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// judges are the judges whose guarantee has no number.
//
//nolint:gochecknoglobals // a table that nothing changes
var judges = []string{"admission", "durability", "liveness", "recipes"}

// kinds are the kinds of defects that once escaped all tests, with what escaped.
//
//nolint:gochecknoglobals // a table that nothing changes
var kinds = map[string]string{
	"access":                   "a role that is refused one call and allowed another with the same effect",
	"agreement":                "replicas that differ; a follower that never catches up; an entry committed and not yet applied",
	"callbacks and goroutines": "a callback that blocks; a reader that never reads; a result after its caller gave up",
	"files":                    "an empty file; a directory that was removed under a running node",
	"limits":                   "a bound shared by unrelated clients; a count that differs from what is kept; a rate below what users need",
	"links":                    "a thin link on which a batch misses its deadline; an address that another host has now",
	"load":                     "all clients at once, and all retries at once; 100,000 expiries in one instant; a recovery that runs into a limit",
	"order and identity":       "an event before its answer; a late answer to an older attempt; two take-overs in turn; a forgotten repeat",
	"partial failure":          "one full or hung disk; a leader whose messages arrive and that receives none",
	"people":                   "a setting that differs between nodes; a node replaced before the last one has caught up",
	"processes":                "a process that is stopped again and again, each time for less than the limit",
	"re-creation and rollback": "a node on an older copy of its directory; a cluster created again under running clients",
	"sizes":                    "a message above what the next hop accepts; a count in bounds and bytes out of bounds",
	"untrusted input":          "any bytes on any port; absurd terms and incarnations; a member's name without its key",
	"unmeasured cost":          "the cost of one client, of many at once, and of an idle cluster",
	"syncs":                    "a log that acknowledges before the disk has synced",
	"time":                     "memory, files and names that are never released",
	"votes":                    "a vote that is kept in memory alone, and cast again after a restart",
}

var numbered = regexp.MustCompile(`^[A-Z][0-9]+$`)

// parseShows checks what a bug shows. It is one of
//
//	I4                 an invariant: its judge finds the violation
//	T5                 a rule of docs/protocol.md, docs/tree.md or docs/zookeeper.md: a test fails without it
//	judge: liveness    a judge whose guarantee has no number
//	kind: load         a kind of defects that once escaped
func parseShows(text string) (string, error) {
	class, name, _ := strings.Cut(text, ": ")
	_, known := kinds[name]
	switch {
	case numbered.MatchString(text), class == "kind" && known, class == "judge" && slices.Contains(judges, name):
		return text, nil
	}
	return "", fmt.Errorf("shows: %q: want an invariant, a rule, or a judge or kind that shows.go lists", text)
}

// byShows orders bugs by what they show: invariants, rules, judges, kinds.
func byShows(a, b bug) int {
	place := func(text string) (class int, letter string, number int) {
		n, err := strconv.Atoi(text[1:])
		switch {
		case err != nil && strings.HasPrefix(text, "judge: "):
			return 2, text, 0
		case err != nil:
			return 3, text, 0
		case text[0] == 'I':
			return 0, "I", n
		}
		return 1, text[:1], n
	}
	classA, letterA, numberA := place(a.shows)
	classB, letterB, numberB := place(b.shows)
	return cmp.Or(classA-classB, strings.Compare(letterA, letterB), numberA-numberB, strings.Compare(a.name, b.name))
}
