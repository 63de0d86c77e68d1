package recipes

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/tree"
)

// States of a [Contender].
const (
	Holds = "holds"
	Waits = "waits"
	// InLockDelay is the state of an expired session's entry: the lock is free after the lock-delay (H2 lock-delay).
	InLockDelay = "lock-delay"
)

// Contender is a holder of a lock or a waiter: an entry below the lock's entry.
type Contender struct {
	tree.Child
	// Path is the entry's path, State one of [Holds], [Waits] and [InLockDelay].
	Path, State string
	// As is the kind of contender: "lock", "read" or "candidate".
	As string
	// number is the order of arrival.
	number string
}

// contenderPrefixes are the prefixes of contenders' names, without the hyphen.
func contenderPrefixes() []string { return []string{"lock", "read", "candidate"} }

// Contenders returns the children of a lock's entry that contend for the lock, in their order, and the names of other
// children. It marks the holders: the first contender, and readers without a writer before them. The children come from
// [client.Tree.List] with their data and stats.
func Contenders(lock string, children []tree.Child) (line []Contender, others []string) {
	for _, one := range children {
		as, number, _ := strings.Cut(one.Name, "-")
		if !slices.Contains(contenderPrefixes(), as) || len(number) != sequenceDigits ||
			strings.Trim(number, "0123456789") != "" {
			others = append(others, one.Name)
			continue
		}
		line = append(line, Contender{Child: one, Path: tree.Join(lock, one.Name), As: as, number: number})
	}
	slices.SortFunc(line, func(a, b Contender) int { return cmp.Compare(a.number, b.number) })
	alone := false // a writer holds the lock, or waits for it
	for i := range line {
		one := &line[i]
		one.State = Waits
		if i == 0 || one.As == "read" && !alone {
			one.State = Holds
		}
		if one.State == Holds && one.Stat.Owner == 0 {
			one.State = InLockDelay
		}
		alone = alone || one.As != "read"
	}
	return line, others
}
