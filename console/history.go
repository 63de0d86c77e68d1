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

// maxEntriesKept bounds the entries of a history.
const maxEntriesKept = 200

// historyEntry is an event of this node or its cluster, as the node observed it.
type historyEntry struct {
	At   time.Time
	Text string
	// IsProblem marks events that need attention.
	IsProblem bool
}

// history is the console's own data: samples and events. Safe for concurrent use.
type history struct {
	mu      sync.Mutex
	ring    ring
	entries []historyEntry
	// lastScrape is the last scrape, lastStatus the node's status at the last check, and peers the state of other
	// nodes. They belong to Run.
	lastScrape scrape
	lastStatus clientport.NodeStatus
	peers      peerReports
	checked    bool
}

func newHistory() *history { return &history{} }

// newestFirst returns the entries, the newest first.
func (r *history) newestFirst() []historyEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := slices.Clone(r.entries)
	slices.Reverse(entries)
	return entries
}

func (r *history) add(t historyEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) == maxEntriesKept {
		r.entries = slices.Delete(r.entries, 0, 1)
	}
	r.entries = append(r.entries, t)
}

// checkStatus compares the node's status with the previous one, and reports changes to pages. Only Run calls it.
func (c *Console) checkStatus(now time.Time) {
	s, before := c.nodeStatus(), c.history.lastStatus
	c.history.lastStatus = s
	if !c.history.checked {
		c.history.checked = true
		first := notice("The console of node %d started. %s", s.Node, leaderText(s.Leader, s.Term))
		first.At = now
		c.history.add(first)
		return
	}
	for _, t := range append(entriesBetween(before, s), c.history.peers.entries(now, s)...) {
		t.At = now
		c.history.add(t)
	}
	if statusKeyOf(before) != statusKeyOf(s) {
		c.events.publish("status", `{}`)
	}
	if before.AppliedIndex != s.AppliedIndex {
		c.events.publish("log", fmt.Sprintf(`{"index":%d}`, s.AppliedIndex))
	}
}

// statusKey is the part of a status whose change is an event. Its texts are without numbers.
type statusKey struct {
	role               clientport.Role
	term               uint64
	leader             session.Node
	ready              bool
	because, warning   string
	frozen, isDraining bool
	excluded           string
}

func statusKeyOf(s clientport.NodeStatus) statusKey {
	return statusKey{
		s.Role, s.Term, s.Leader, s.Ready, withoutNumbers(s.NotReadyBecause), withoutNumbers(s.Warning), s.Frozen > 0,
		s.Drain != nil, fmt.Sprint(s.Excluded),
	}
}

// withoutNumbers removes the words with digits from a text: a changed amount or duration is no event. The warning of a
// freeze has another remaining time each second, which would push all other events out of the history.
func withoutNumbers(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(text), func(word string) bool {
		return strings.ContainsAny(word, "0123456789")
	}), " ")
}

func notice(format string, args ...any) historyEntry {
	return historyEntry{Text: fmt.Sprintf(format, args...)}
}

func problem(format string, args ...any) historyEntry {
	return historyEntry{Text: fmt.Sprintf(format, args...), IsProblem: true}
}

// entriesBetween returns the events between two checks.
func entriesBetween(before, s clientport.NodeStatus) (entries []historyEntry) {
	if before.Leader != s.Leader || before.Term != s.Term {
		entries = append(entries, historyEntry{Text: leaderText(s.Leader, s.Term), IsProblem: s.Leader == 0})
	}
	if before.Ready != s.Ready {
		if s.Ready {
			entries = append(entries, notice("Node %d is ready again.", s.Node))
		} else {
			entries = append(entries, problem("Node %d is not ready: %s.", s.Node, s.NotReadyBecause))
		}
	}
	if withoutNumbers(before.Warning) != withoutNumbers(s.Warning) && s.Warning != "" {
		entries = append(entries, problem("Warning of node %d: %s.", s.Node, s.Warning))
	}
	if (before.Drain != nil) != (s.Drain != nil) {
		format := "Node %d is no longer draining."
		if s.Drain != nil {
			format = "Node %d is draining."
		}
		entries = append(entries, notice(format, s.Node))
	}
	if (before.Frozen > 0) != (s.Frozen > 0) {
		if s.Frozen > 0 {
			entries = append(entries, problem("Expiry is frozen."))
		} else {
			entries = append(entries, notice("Expiry is no longer frozen."))
		}
	}
	return entries
}

// leaderSettleTime is how long one node must have been the leader before a problem that its report no longer contains
// counts as solved. Right after an election the leader reports nothing about members that have not answered yet, and
// without a leader there is no report.
const leaderSettleTime = 10 * time.Second

// peerReports compares the leaders' reports about other nodes. The zero value is ready.
type peerReports struct {
	reported session.Excluded
	leader   session.Node
	term     uint64
	// since is when the current leader was first seen in its term.
	since time.Time
}

// entries returns the events of other nodes since the previous check.
func (o *peerReports) entries(now time.Time, s clientport.NodeStatus) (entries []historyEntry) {
	if s.Leader != o.leader || s.Term != o.term || o.since.IsZero() {
		o.leader, o.term, o.since = s.Leader, s.Term, now
	}
	over := s.Leader != 0 && now.Sub(o.since) >= leaderSettleTime
	// The leader's report names each node once: an unreachable node is not also reported as draining or full.
	var hidden []session.Node
	type newEntry func(format string, args ...any) historyEntry
	each := func(reported *[]session.Node, current []session.Node, begin newEntry, beginFormat, endFormat string) {
		for _, node := range current {
			if node != s.Node && !slices.Contains(*reported, node) {
				*reported = append(*reported, node)
				entries = append(entries, begin(beginFormat, node))
			}
		}
		*reported = slices.DeleteFunc(*reported, func(node session.Node) bool {
			ended := over && !slices.Contains(current, node) && !slices.Contains(hidden, node)
			if ended {
				entries = append(entries, notice(endFormat, node))
			}
			return ended
		})
		hidden = append(hidden, current...)
	}
	each(&o.reported.Unreachable, s.Excluded.Unreachable, problem, "Node %d is unreachable from the leader.",
		"Node %d is reachable again.")
	each(&o.reported.Draining, s.Excluded.Draining, notice, "Node %d is draining.", "Node %d is no longer draining.")
	each(&o.reported.Full, s.Excluded.Full, problem, "Node %d has a full disk: its clients move to other nodes.",
		"Node %d has free disk space again.")
	return entries
}

// leaderText names the leader of a term.
func leaderText(leader session.Node, term uint64) string {
	if leader == 0 {
		return fmt.Sprintf("No leader is known in term %d.", term)
	}
	return fmt.Sprintf("Node %d leads term %d.", leader, term)
}

// takeSample samples the node's metrics, and sends the sample to pages. Only Run calls it.
func (c *Console) takeSample(now time.Time) {
	families, err := c.metrics.Gather()
	if err != nil {
		c.logger.Warn("reading the node's metrics", "error", err)
		return
	}
	latest := newScrape(now, families)
	before := c.history.lastScrape
	c.history.lastScrape = latest
	if before.families == nil {
		return
	}
	s := latest.sampleSince(before)
	c.history.mu.Lock()
	c.history.ring.add(s)
	c.history.mu.Unlock()
	data, err := json.Marshal(columnsOf([]sample{s}))
	if err != nil {
		c.logger.Warn("encoding a sample", "error", err)
		return
	}
	c.events.publish("sample", string(data))
}

// columns are samples in JSON: times in seconds, and a column for each series, with null for unknown values.
type columns struct {
	Seconds []float64            `json:"t"`
	Values  map[string][]*number `json:"values"`
}

// number is a JSON number with as many digits as a plot shows.
type number float64

// MarshalJSON writes six digits.
func (n number) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.6g", float64(n)), nil
}

func columnsOf(samples []sample) columns {
	c := columns{Seconds: make([]float64, len(samples)), Values: make(map[string][]*number, seriesCount)}
	for i, f := range allSeries() {
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

// serveSamples serves the samples of the last hour.
func (c *Console) serveSamples(w http.ResponseWriter, _ *http.Request) {
	c.history.mu.Lock()
	samples := c.history.ring.all()
	c.history.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(columnsOf(samples)); err != nil {
		c.logger.Debug("sending samples", "error", err)
	}
}

const (
	// streamWriteTimeout bounds one write to a page that reads nothing. heartbeatInterval is the longest time without
	// an event: after three times as long a page considers the node lost. streamLifetime bounds a stream: the page
	// reconnects at once, and the node authorizes the caller again.
	streamWriteTimeout = 10 * time.Second
	heartbeatInterval  = 5 * time.Second
	streamLifetime     = 5 * time.Minute
)

// serveEvents serves the event stream.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // an error means that the connection has none
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead { // the mux routes HEAD like GET, and this answer has no end to wait for
		return
	}
	send := func(frame string) error {
		_ = control.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // as above
		if _, err := fmt.Fprint(w, frame); err != nil {
			return err
		}
		return control.Flush()
	}
	last, frame := c.resumeStream(r.Header.Get("Last-Event-ID"))
	// The stream ends when the page closes its connection, or only its half of it: writes would succeed as long as the
	// page reads.
	closed := func() bool { return r.Context().Err() != nil }
	for end := time.Now().Add(streamLifetime); !closed() && time.Now().Before(end) && send(frame) == nil; {
		n := c.events.after(last)
		switch {
		case !n.complete:
			last = c.events.newest()
			frame = c.formatEvent(event{last, "reload", "{}"})
		case len(n.events) > 0:
			frame = ""
			for _, e := range n.events {
				frame += c.formatEvent(e)
			}
			last = n.events[len(n.events)-1].number
		case n.closed:
			return
		default:
			if frame = heartbeatAfter(r.Context(), n.changed); frame == "" {
				frame = ":\n\n" // a comment: the event is read in the next round
			}
		}
	}
}

// formatEvent formats an event for the stream.
func (c *Console) formatEvent(e event) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", c.events.id(e.number), e.kind, e.data)
}

// resumeStream returns the number after which a stream continues, and its first text. id is that of the last event that
// the page received before its stream broke.
func (c *Console) resumeStream(id string) (last uint64, text string) {
	if id == "" {
		return c.events.newest(), "retry: 500\nevent: begin\ndata: {}\n\n"
	}
	if number, ours := c.events.number(id); ours {
		return number, ":\n\n"
	}
	return c.events.newest(), "event: reload\ndata: {}\n\n"
}

// heartbeatAfter waits for further events. It returns a heartbeat if none come for heartbeatInterval.
func heartbeatAfter(ctx context.Context, more <-chan struct{}) string {
	quiet := time.NewTimer(heartbeatInterval)
	defer quiet.Stop()
	select {
	case <-more:
	case <-ctx.Done():
	case <-quiet.C:
		return "event: heartbeat\ndata: {}\n\n"
	}
	return ""
}
