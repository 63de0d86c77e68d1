package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/session"
)

// Mark is a remark in a story, such as a violation.
type Mark struct {
	At   time.Duration
	Text string
}

// Story returns the lines that explain the life of session id: its own events, and the faults, the starts and ends of
// nodes, the changes of leader and the silences of its owner during its life. One line shows what all replicas did with
// an entry. Of a row of touches and promises, only the first and the last are shown. Marks are at their times. Id 0
// returns all events without a session.
func Story(events []Event, id session.ID, marks ...Mark) string {
	t := storyteller{
		id: id, from: -1, applied: make(map[deed]int), terms: make(map[uint64]bool), rows: make(map[string][]Event),
		answers: make(map[session.Node]time.Duration),
	}
	t.span(events, marks)
	for _, e := range events {
		t.addEvent(e)
	}
	t.fold()
	t.silence(t.till)
	for _, m := range marks {
		t.lines = append(t.lines, line{at: m.At, text: fmt.Sprintf("%11.4fs >>>> %s", m.At.Seconds(), m.Text)})
	}
	slices.SortStableFunc(t.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, l := range t.lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// deed is a change that each replica makes once.
type deed struct {
	kind  Kind
	index uint64
}

type line struct {
	at   time.Duration
	text string
	// who has made the change already.
	who []string
}

// storyteller makes a story of events that are sorted by time.
type storyteller struct {
	id session.ID
	// from and till bound the life of the session; a negative from is for the story of no session.
	from, till time.Duration
	lines      []line
	// applied holds the index in lines of each deed.
	applied map[deed]int
	terms   map[uint64]bool
	// rows are touches and promises with no other event of the session between them.
	rows map[string][]Event
	// began are faults that may not have ended before the life began.
	began []Event
	begun bool
	// owner is the session's owner. answers is when each node's last answer reached a leader.
	owner   session.Node
	answers map[session.Node]time.Duration
}

// silent is how long an owner's answers must be missing before the story mentions it: three heartbeat intervals.
const silent = 1500 * time.Millisecond

// span finds when the life of the session started and ended. Entries that nodes apply again after a restart are no part
// of it.
func (t *storyteller) span(events []Event, marks []Mark) {
	if t.id == 0 {
		return
	}
	ended := false
	for _, e := range events {
		if e.ID != t.id {
			continue
		}
		if t.from < 0 {
			t.from = e.At
		}
		replay := ended && (e.Kind == AppliedOpen || e.Kind == AppliedMove || e.Kind == AppliedEnd)
		if !replay {
			t.till = e.At
		}
		ended = ended || e.Kind == AppliedEnd
	}
	for _, m := range marks {
		t.till = max(t.till, m.At)
	}
}

// addEvent processes the next event.
func (t *storyteller) addEvent(e Event) {
	switch {
	case e.Kind == AnswerReceived:
		t.lead(e)
		if e.Node == t.owner && e.At <= t.till {
			t.silence(e.At)
		}
		t.answers[e.Node] = e.At
	case t.id != 0 && e.ID == t.id:
		t.own(e)
	case e.ID != 0:
	case t.from >= 0 && e.At < t.from:
		t.before(e)
	case t.from >= 0 && e.At > t.till:
	case e.Kind == Digest || e.Kind == AppliedTerm || e.Kind == Leads || e.Kind == Wants || e.Kind == Refused ||
		e.Kind == Shown || e.Kind == Committed || e.Kind == Called || e.Kind == Found:
	default:
		t.overture()
		t.add(e)
	}
}

// before remembers the faults that have not ended when the life begins.
func (t *storyteller) before(e Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds explain nothing later
	case FaultBegan:
		t.began = append(t.began, e)
	case FaultEnded:
		t.began = slices.DeleteFunc(t.began, func(b Event) bool { return b.Text == e.Text })
	}
}

// overture adds the faults that were at work when the life began.
func (t *storyteller) overture() {
	for _, b := range t.began {
		t.lines = append(t.lines, line{at: b.At, text: Line(b)})
	}
	t.began = nil
}

func (t *storyteller) add(e Event) { t.lines = append(t.lines, line{at: e.At, text: Line(e)}) }

// lead adds the first answer to a new leader. Of the leaders before the life it adds the newest.
func (t *storyteller) lead(e Event) {
	if t.terms[e.Term] || t.from >= 0 && e.At > t.till {
		return
	}
	t.terms[e.Term] = true
	text := fmt.Sprintf("%11.4fs %-4s leads term %d", e.Sent.Seconds(), e.Who, e.Term)
	if t.from >= 0 && e.At < t.from {
		if n := len(t.lines); n == 1 && !t.begun {
			t.lines = t.lines[:0] // the newest leader before the life replaces an older one
		}
	} else {
		t.begun = true
	}
	t.lines = append(t.lines, line{at: e.Sent, text: text})
}

// silence adds the owner's silence when it has ended, if it was long enough.
func (t *storyteller) silence(till time.Duration) {
	from, ok := t.answers[t.owner]
	if from = max(from, t.from); ok && t.owner != 0 && till-from > silent {
		t.lines = append(
			t.lines, line{
				at: from, text: fmt.Sprintf("%11.4fs      no leader receives an answer of node %d until %.4fs", from.Seconds(),
					t.owner, till.Seconds()),
			},
		)
	}
}

// own adds an event of the session itself.
func (t *storyteller) own(e Event) {
	t.overture()
	t.begun = true
	switch {
	case e.Kind == Touched || e.Kind == Promised || e.Kind == Shown || e.Op == Touch || e.Op == Show:
		row := fmt.Sprintf("%s %d %d", e.Who, e.Attachment, e.Kind)
		t.rows[row] = append(t.rows[row], e)
	case e.Kind == AppliedOpen || e.Kind == AppliedMove || e.Kind == AppliedEnd:
		t.replicated(e)
	default:
		t.fold()
		t.add(e)
	}
}

// replicated adds a deed once, with the moments at which other replicas made it.
func (t *storyteller) replicated(e Event) {
	d := deed{e.Kind, e.Index}
	at, ok := t.applied[d]
	if !ok {
		t.silence(e.At)
		if t.owner = e.Node; e.Kind == AppliedEnd {
			t.owner = 0
		}
		t.fold()
		t.applied[d] = len(t.lines)
		t.lines = append(t.lines, line{at: e.At, text: Line(e), who: []string{e.Who}})
		return
	}
	if l := &t.lines[at]; !slices.Contains(l.who, e.Who) {
		l.who = append(l.who, e.Who)
		l.text += fmt.Sprintf(", %s at %.4fs", e.Who, e.At.Seconds())
	}
}

// fold ends the rows of touches and promises. It adds the first and the last event of each row.
func (t *storyteller) fold() {
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		row := t.rows[name]
		for i, e := range row {
			switch {
			case i == 0 || i == len(row)-1:
				t.add(e)
			case i == 1:
				t.lines = append(t.lines,
					line{at: e.At, text: fmt.Sprintf("%12s %-4s (%d more of the kind)", "...", e.Who, len(row)-2)})
			}
		}
	}
	clear(t.rows)
}
