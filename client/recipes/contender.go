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
	// Lingers is the state of the entry of a session that has expired: the lock is free after its lock-delay (F2).
	Lingers = "lingers"
)

// Contender is one who holds a lock or waits for it: an entry below that of the lock.
type Contender struct {
	tree.Child
	// Path is the entry's, State one of [Holds], [Waits] and [Lingers].
	Path, State string
	// As says what it wants: "lock", "read" or "candidate".
	As string
	// number orders contenders as they came.
	number string
}

// contenderPrefixes are what the names of contenders begin with, without the hyphen.
func contenderPrefixes() []string { return []string{"lock", "read", "candidate"} }

// InLine returns which children of a lock's entry contend for it, in their order, and the names of the others. It says
// who holds the lock: the first of all, and readers that have no writer before them. The children come from
// [client.Tree.List] with their data and stats.
func InLine(lock string, children []tree.Child) (line []Contender, others []string) {
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
	alone := false // somebody holds it, or waits for it, alone
	for i := range line {
		one := &line[i]
		one.State = Waits
		if i == 0 || one.As == "read" && !alone {
			one.State = Holds
		}
		if one.State == Holds && one.Stat.Owner == 0 {
			one.State = Lingers
		}
		alone = alone || one.As != "read"
	}
	return line, others
}
