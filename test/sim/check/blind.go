package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"holdfast/test/sim/history"
	"holdfast/tree"
)

// BlindPath is the part of the tree whose entries are checked without stamps. A transaction there has one operation,
// and nothing else touches its entry.
const BlindPath = "/blind"

// blind checks linearizability of entries by clients' requests and answers, and their times. It ignores stamps and the
// log, because the source of stamps may be wrong. One order of all writes and linearizable reads of an entry must
// explain every answer, each between its call and its answer. A write without an answer may take effect at any time, or
// never.
type blind struct{ replays }

// cell is the model's state of an entry.
type cell struct {
	there   bool
	data    string
	version int64
}

// touch is an operation on an entry. op is nil for a read. open: its outcome is unknown.
type touch struct {
	op   tree.Op
	open bool
	// refused, data and version are the outcome. A read of a missing entry is refused with NoNode.
	refused tree.Code
	data    string
	version int64
}

// String returns the operation and its outcome.
func (t touch) String() string {
	text := "read"
	if t.op != nil {
		text = t.op.Verb()
	}
	switch op := t.op.(type) {
	case tree.Create:
		text += fmt.Sprintf(" %q", op.Data)
	case tree.Set:
		text += fmt.Sprintf(" %q if version %d", op.Data, op.Version)
	}
	switch {
	case t.open:
		return text + ": not known"
	case t.refused != 0:
		return fmt.Sprintf("%s: %v", text, t.refused)
	default:
		return fmt.Sprintf("%s: %q version %d", text, t.data, t.version)
	}
}

// noOutcome is the version of an answer without an outcome. No entry has it.
const noOutcome = -1

// mostBlind bounds the steps of a search, during which virtual time stops.
const mostBlind = 300_000

// check judges each entry by itself. A search that is too long judges nothing, and is counted.
func (c blind) check() {
	entries := c.touches()
	for _, path := range slices.Sorted(maps.Keys(entries)) {
		ops, steps := entries[path], 0
		model := porcupine.Model{
			Init: func() any { return cell{} },
			Step: func(s, t, _ any) (bool, any) {
				if steps++; steps > mostBlind {
					return false, s
				}
				return feel(s.(cell), t.(touch)) //nolint:errcheck // the model's own types
			},
		}
		right := porcupine.CheckOperations(model, ops)
		switch {
		case steps > mostBlind:
			c.checked("blind not judged")
		case right:
			c.checked("blind")
		default:
			c.fail("blind", 0, time.Duration(ops[0].Call/2), "no order of what was done to %s explains the answers:%s", path,
				reported(ops))
		}
	}
}

// reported formats operations with their times.
func reported(ops []porcupine.Operation) string {
	var text strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&text, "\n  %11.4fs to %.4fs %v", time.Duration(o.Call/2).Seconds(), time.Duration(o.Return/2).Seconds(),
			o.Input)
	}
	return text.String()
}

// touches returns the operations on each entry. Events at the same moment are concurrent: an answer is no earlier than
// the calls of its moment.
func (c blind) touches() map[string][]porcupine.Operation {
	entries := make(map[string][]porcupine.Operation)
	add := func(path string, t touch, e history.Event) {
		o := porcupine.Operation{Input: t, Call: 2 * int64(e.Sent), Return: 2*int64(e.At) + 1}
		if t.open && e.Call.Fate == history.InDoubt {
			o.Return = math.MaxInt64
		}
		entries[path] = append(entries[path], o)
	}
	for _, e := range c.called {
		if then := e.Call.Transaction.Then; len(then) == 1 && tree.Below(then[0].Target(), BlindPath) &&
			e.Call.Fate != history.NoEffect {
			add(then[0].Target(), touched(e.Call), e)
		}
	}
	for _, e := range c.found {
		if !tree.Below(e.Entry.Path, BlindPath) || !e.Entry.Linearizable {
			continue
		}
		t := touch{refused: tree.NoNode}
		if e.Entry.Exists {
			t = touch{data: e.Entry.Data, version: e.Entry.Stat.Version}
		}
		add(e.Entry.Path, t, e)
	}
	return entries
}

// touched returns the operation of a transaction. No order explains an answer without the outcome of the operation.
func touched(c *history.Call) touch {
	t := touch{op: c.Transaction.Then[0], open: c.Fate != history.Answered}
	if t.open {
		return t
	}
	switch t.refused = refusal(c.Result.Outcome); {
	case t.refused != 0:
	case len(c.Result.Outcome.Ops) == 1:
		t.version = c.Result.Outcome.Ops[0].Stat.Version
	default:
		t.version = noOutcome
	}
	return t
}

// feel is the model: whether an operation can have had its answer, and the entry's next state.
func feel(s cell, t touch) (bool, cell) {
	next, refused := s, tree.Code(0)
	switch op := t.op.(type) {
	case nil:
		if !s.there {
			refused = tree.NoNode
		}
		return t.refused == refused && (!s.there || t.data == s.data && t.version == s.version), s
	case tree.Create:
		if refused = tree.NodeExists; !s.there {
			refused, next = 0, cell{there: true, data: string(op.Data)}
		}
	case tree.Set:
		if refused = s.against(op.Version); refused == 0 {
			next.data, next.version = string(op.Data), s.version+1
		}
	case tree.Delete:
		if refused = s.against(op.Version); refused == 0 {
			next = cell{}
		}
	}
	return t.open || t.refused == refused && (refused != 0 || t.version == next.version), next
}

// against returns why an operation on an entry of a version is refused, 0 if it is not.
func (s cell) against(version int64) tree.Code {
	switch {
	case !s.there:
		return tree.NoNode
	case version != tree.Any && version != s.version:
		return tree.BadVersion
	default:
		return 0
	}
}
