package console

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// turnsKept bounds the turns that a console remembers.
const turnsKept = 200

// turn is something that happened to this node or to its cluster, as the node saw it.
type turn struct {
	At   time.Time
	What string
	// Bad says that somebody should look.
	Bad bool
}

// record is what a console knows by itself. Safe for concurrent use.
type record struct {
	mu    sync.Mutex
	ring  ring
	turns []turn
	// before is the last scrape, seen how the node was at the last look, others what was told of the other nodes; all are
	// those of Run.
	before gathered
	seen   clientport.NodeStatus
	others others
	looked bool
}

func newRecord() *record { return &record{} }

// turned returns the turns, the newest first.
func (r *record) turned() []turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns := slices.Clone(r.turns)
	slices.Reverse(turns)
	return turns
}

func (r *record) note(t turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.turns) == turnsKept {
		r.turns = slices.Delete(r.turns, 0, 1)
	}
	r.turns = append(r.turns, t)
}

// look compares how the node is with how it was, and tells pages. Run alone calls it.
func (c *Console) look(now time.Time) {
	s, was := c.glance(), c.record.seen
	c.record.seen = s
	if !c.record.looked {
		c.record.looked = true
		c.record.note(turn{At: now, What: fmt.Sprintf("The console of node %d began: %s", s.Node, leads(s.Leader, s.Term))})
		return
	}
	for _, t := range append(turnsBetween(was, s), c.record.others.turns(now, s)...) {
		t.At = now
		c.record.note(t)
	}
	if steady(was) != steady(s) {
		c.news.tell("status", `{}`)
	}
	if was.AppliedIndex != s.AppliedIndex {
		c.news.tell("log", fmt.Sprintf(`{"index":%d}`, s.AppliedIndex))
	}
}

// standing is what of a status does not change by itself: texts are without their figures.
type standing struct {
	role               clientport.Role
	term               uint64
	leader             session.Node
	ready              bool
	because, warning   string
	frozen, isDraining bool
	aside              string
}

func steady(s clientport.NodeStatus) standing {
	return standing{
		s.Role, s.Term, s.Leader, s.Ready, withoutFigures(s.NotReadyBecause), withoutFigures(s.Warning), s.Frozen > 0,
		s.Drain != nil, fmt.Sprint(s.Aside),
	}
}

// withoutFigures returns a text without the words that have digits: how much or how long is no news. The warning of a
// freeze says each second how long the freeze still lasts, which would push all else out of the turns.
func withoutFigures(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(text), func(word string) bool {
		return strings.ContainsAny(word, "0123456789")
	}), " ")
}

// turnsBetween says what happened between two looks.
func turnsBetween(was, s clientport.NodeStatus) (turns []turn) {
	if was.Leader != s.Leader || was.Term != s.Term {
		turns = append(turns, turn{What: leads(s.Leader, s.Term), Bad: s.Leader == 0})
	}
	if was.Ready != s.Ready {
		if s.Ready {
			turns = append(turns, turn{What: fmt.Sprintf("Node %d serves again.", s.Node)})
		} else {
			turns = append(turns, turn{What: fmt.Sprintf("Node %d does not serve: %s.", s.Node, s.NotReadyBecause), Bad: true})
		}
	}
	if withoutFigures(was.Warning) != withoutFigures(s.Warning) && s.Warning != "" {
		turns = append(turns, turn{What: fmt.Sprintf("Node %d warns: %s.", s.Node, s.Warning), Bad: true})
	}
	if (was.Drain != nil) != (s.Drain != nil) {
		what := "is being drained."
		if s.Drain == nil {
			what = "is not being drained any more."
		}
		turns = append(turns, turn{What: fmt.Sprintf("Node %d %s", s.Node, what)})
	}
	if (was.Frozen > 0) != (s.Frozen > 0) {
		what := "The cluster is not frozen any more: sessions expire again."
		if s.Frozen > 0 {
			what = "The cluster is frozen: nothing expires."
		}
		turns = append(turns, turn{What: what, Bad: s.Frozen > 0})
	}
	return turns
}

// settled is how long one node must have led before others counts a thing as over that its word no longer has. Right
// after an election the leader says nothing of members that have not answered yet, and without a leader nobody says
// anything.
const settled = 10 * time.Second

// others is what was told of the other nodes, by the word of leaders. The zero value is ready.
type others struct {
	told   session.Aside
	leader session.Node
	term   uint64
	// since is when the present leader was first seen in its term.
	since time.Time
}

// turns says what happened to the other nodes since the look before.
func (o *others) turns(now time.Time, s clientport.NodeStatus) (turns []turn) {
	if s.Leader != o.leader || s.Term != o.term || o.since.IsZero() {
		o.leader, o.term, o.since = s.Leader, s.Term, now
	}
	over := s.Leader != 0 && now.Sub(o.since) >= settled
	// The leader's word has each node once: of one that is silent it says neither that it is drained nor that it is full.
	var hidden []session.Node
	each := func(told *[]session.Node, word []session.Node, did turn, undid string) {
		for _, node := range word {
			if node != s.Node && !slices.Contains(*told, node) {
				*told = append(*told, node)
				turns = append(turns, turn{What: fmt.Sprintf("Node %d %s", node, did.What), Bad: did.Bad})
			}
		}
		*told = slices.DeleteFunc(*told, func(node session.Node) bool {
			ended := over && !slices.Contains(word, node) && !slices.Contains(hidden, node)
			if ended {
				turns = append(turns, turn{What: fmt.Sprintf("Node %d %s", node, undid)})
			}
			return ended
		})
		hidden = append(hidden, word...)
	}
	each(&o.told.Unheard, s.Aside.Unheard, turn{What: "is silent: the leader does not hear it.", Bad: true},
		"is not silent any more.")
	each(&o.told.Draining, s.Aside.Draining, turn{What: "is being drained."}, "is not being drained any more.")
	each(&o.told.Full, s.Aside.Full, turn{What: "has a full disk: clients are sent to other nodes.", Bad: true},
		"has room on its disk again.")
	return turns
}

// leads says who leads.
func leads(leader session.Node, term uint64) string {
	if leader == 0 {
		return fmt.Sprintf("No leader is known in term %d.", term)
	}
	return fmt.Sprintf("Node %d leads term %d.", leader, term)
}

// take takes a sample of the node's metrics, and tells pages. Run alone calls it.
func (c *Console) take(now time.Time) {
	families, err := c.metrics.Gather()
	if err != nil {
		c.logger.Warn("reading the node's own metrics", "error", err)
		return
	}
	scrape := gatheredAt(now, families)
	before := c.record.before
	c.record.before = scrape
	if before.families == nil {
		return
	}
	s := scrape.since(before)
	c.record.mu.Lock()
	c.record.ring.add(s)
	c.record.mu.Unlock()
	data, err := json.Marshal(columnsOf([]sample{s}))
	if err != nil {
		c.logger.Warn("writing a sample", "error", err)
		return
	}
	c.news.tell("sample", string(data))
}

// columns are samples in JSON: moments in seconds, and a column for each figure with null for what is not known.
type columns struct {
	Seconds []float64            `json:"t"`
	Values  map[string][]*number `json:"values"`
}

// number is a number with no more digits than a plot shows.
type number float64

// MarshalJSON writes six digits.
func (n number) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.6g", float64(n)), nil
}

func columnsOf(samples []sample) columns {
	c := columns{Seconds: make([]float64, len(samples)), Values: make(map[string][]*number, figures)}
	for i, f := range plotted() {
		column := make([]*number, len(samples))
		for j := range samples {
			if v := samples[j].values[i]; !math.IsNaN(v) && !math.IsInf(v, 0) {
				column[j] = new(number(v))
			}
		}
		c.Values[f.name] = column
	}
	for j := range samples {
		c.Seconds[j] = float64(samples[j].at.UnixMilli()) / 1000
	}
	return c
}

// samples serves the ring.
func (c *Console) samples(w http.ResponseWriter, _ *http.Request) {
	c.record.mu.Lock()
	samples := c.record.ring.all()
	c.record.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(columnsOf(samples)); err != nil {
		c.logger.Debug("sending samples", "error", err)
	}
}

const (
	// streamWrite bounds one write to a page that reads nothing, streamQuiet the time without any: a page takes silence
	// of three times this for a lost node. streamLife bounds a stream: its page comes back at once, and the node looks
	// again who asks.
	streamWrite = 10 * time.Second
	streamQuiet = 5 * time.Second
	streamLife  = 5 * time.Minute
)

// events serves the stream of events.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // an error means that the connection has none
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead { // the mux takes it for a GET, and its answer has no end to wait for
		return
	}
	send := func(text string) error {
		_ = control.SetWriteDeadline(time.Now().Add(streamWrite)) // as above
		if _, err := fmt.Fprint(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	last, text := c.beginStream(r.Header.Get("Last-Event-ID"))
	// A page that has gone ends its stream, and so does one that closed its half of the connection: writes to that one
	// succeed for as long as it reads.
	gone := func() bool { return r.Context().Err() != nil }
	for end := time.Now().Add(streamLife); !gone() && time.Now().Before(end) && send(text) == nil; {
		n := c.news.after(last)
		switch {
		case !n.complete:
			last = c.news.newest()
			text = c.frameOf(event{last, "anew", "{}"})
		case len(n.events) > 0:
			text = ""
			for _, e := range n.events {
				text += c.frameOf(e)
			}
			last = n.events[len(n.events)-1].number
		case n.ended:
			return
		default:
			if text = waitFor(r.Context(), n.more); text == "" {
				text = ":\n\n" // a comment: what came is read in the next round
			}
		}
	}
}

// frameOf writes an event as the stream has it.
func (c *Console) frameOf(e event) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", c.news.id(e.number), e.kind, e.data)
}

// beginStream returns the number after which a stream goes on, and what it begins with: id is that of the last event
// that a page had before its stream broke.
func (c *Console) beginStream(id string) (last uint64, text string) {
	if id == "" {
		return c.news.newest(), "retry: 500\nevent: begin\ndata: {}\n\n"
	}
	if number, ours := c.news.number(id); ours {
		return number, ":\n\n"
	}
	return c.news.newest(), "event: anew\ndata: {}\n\n"
}

// waitFor waits until there are more events, and returns what is to be sent if none come for a while.
func waitFor(ctx context.Context, more <-chan struct{}) string {
	quiet := time.NewTimer(streamQuiet)
	defer quiet.Stop()
	select {
	case <-more:
	case <-ctx.Done():
	case <-quiet.C:
		return "event: quiet\ndata: {}\n\n"
	}
	return ""
}
