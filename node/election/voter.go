// Package election carries out what node/succession decides, so that a voter campaigns before Raft's timeouts (rules F
// of docs/protocol.md): it asks the leader and the voters over Raft's network, and makes Raft campaign.
package election

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/members"
	"holdfast/node/succession"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Config is what a [Voter] is made from.
type Config struct {
	Logger     hclog.Logger
	Pulse      session.Pulse
	Membership *members.Membership
	// Silence is how long Raft receives nothing from a leader that is gone though its connections stay open. It is
	// Raft's leader lease: see F1.
	Silence time.Duration
}

// Network is Raft's network.
type Network interface {
	// Links describes the connections with a node.
	Links(node session.Node) raftnet.Links
	// Ask puts a question to the node at an address.
	Ask(ctx context.Context, address raft.ServerAddress, question []byte) ([]byte, error)
}

// Transport makes Raft campaign.
type Transport interface {
	// Campaign makes Raft campaign as id, if current returns true when Raft is about to.
	Campaign(id raft.ServerID, current func() bool) error
}

// Voter makes this node campaign as soon as a majority of the voters finds that the leader's process has
// ended. [succession.Machine] decides; Voter tells it what Raft and its network say, and does what it returns. The
// machine belongs to the goroutine of Run. Make it with [New], and run it once; its other methods are safe for
// concurrent use.
type Voter struct {
	logger     hclog.Logger
	pulse      session.Pulse
	membership *members.Membership
	id         raft.ServerID

	// news gets a token when connections have changed. questions are those of other nodes, results the answers to this
	// node's own.
	news      chan struct{}
	questions chan question
	results   chan result
	machine   *succession.Machine
	// asking are the pending questions of this node.
	asking sync.WaitGroup

	// probes, started and backed count what this node did, for metrics.
	probes, started, backed atomic.Uint64
}

// question is the question of another voter. answer has room for the answer.
type question struct {
	from   session.Node
	asks   succession.Question
	answer chan bool
}

// result reports the outcome of a request to the machine.
type result func(now time.Time, f succession.Facts) succession.Effects

// inquiry is a question between nodes, as JSON: does the asked node lead the term (Probe), or does it back the asking
// one?
type inquiry struct {
	Probe  bool         `json:"probe,omitempty"`
	Leader session.Node `json:"leader,omitempty"`
	Term   uint64       `json:"term"`
	// LastTerm and LastIndex are the last entry of the asking node's log.
	LastTerm  uint64 `json:"last_term,omitempty"`
	LastIndex uint64 `json:"last_index,omitempty"`
}

// reply is the answer to an inquiry, as JSON. Received says that the inquiry was understood.
type reply struct {
	Received bool `json:"received"`
	Leads    bool `json:"leads,omitempty"`
	Backs    bool `json:"backs,omitempty"`
}

// New returns the voter of this node. It starts nothing.
func New(cfg Config) *Voter {
	of := cfg.Membership
	return &Voter{
		logger: cfg.Logger, pulse: cfg.Pulse, membership: of, id: raftnet.ServerID(of.Self(), of.OwnDirectory()),
		news: make(chan struct{}, 1), questions: make(chan question), results: make(chan result),
		machine: succession.New(of.Self(), cfg.Silence),
	}
}

// Stats counts what a voter did.
type Stats struct {
	// Probes are the questions to leaders' addresses, Supported the nodes that this node backed, Started the elections
	// for which it campaigned.
	Probes, Supported, Started uint64
}

// Stats counts what this voter did so far.
func (v *Voter) Stats() Stats {
	return Stats{Probes: v.probes.Load(), Supported: v.backed.Load(), Started: v.started.Load()}
}

// NoteLinks notes that connections have changed. It does not wait.
func (v *Voter) NoteLinks() {
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// Answer answers the inquiry of another node. A node that is not in the configuration on its directory gets no answer.
func (v *Voter) Answer(from session.Node, d raftnet.Directory, request []byte) []byte {
	var in inquiry
	if json.Unmarshal(request, &in) != nil || v.membership.DirectoryOf(from) != d {
		return nil
	}
	out := reply{Received: true}
	if in.Probe {
		out.Leads = succession.Leads(raftFacts(v.membership), in.Term)
	} else {
		out.Backs = v.backs(from, in)
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("election: encode a reply: " + err.Error()) // truth values can always be encoded
	}
	return b
}

// backs puts a question to the machine. Before Run has begun, and after its end, the answer is no.
func (v *Voter) backs(from session.Node, in inquiry) bool {
	q := question{from, succession.Question{
		Leader: in.Leader, Term: in.Term, Last: succession.Entry{Term: in.LastTerm, Index: in.LastIndex},
	}, make(chan bool, 1)}
	timer := time.NewTimer(succession.AnswerTimeout)
	defer timer.Stop()
	select {
	case v.questions <- q:
		return <-q.answer
	case <-timer.C:
		return false
	}
}

// consensus is what a voter needs of Raft.
type consensus struct {
	network   Network
	transport Transport
}

// Run is the loop of the machine. It runs until ctx ends. changed gets a token after each change of what Raft says of
// the leader.
func (v *Voter) Run(ctx context.Context, network Network, transport Transport, changed <-chan struct{}) error {
	c := consensus{network, transport}
	defer v.asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	// In calm the pulse comes before the timer, so that this process wakes for all its probes together.
	calm := v.pulse.Ticker(v.machine.Calm())
	defer calm.Stop()
	for {
		var e succession.Effects
		select {
		case <-v.news:
			e = v.machine.Wake(time.Now(), v.facts(c))
		case <-changed:
			e = v.machine.Wake(time.Now(), v.facts(c))
		case <-calm.C:
			e = v.machine.Wake(time.Now(), v.facts(c))
		case <-timer.C:
			e = v.machine.Wake(time.Now(), v.facts(c))
		case q := <-v.questions:
			var backs bool
			backs, e = v.machine.OnQuestion(time.Now(), v.facts(c), q.from, q.asks)
			q.answer <- backs
			v.logAnswer(q, backs)
		case r := <-v.results:
			e = r(time.Now(), v.facts(c))
		case <-ctx.Done():
			return nil
		}
		v.do(ctx, c, e)
		timer.Stop()
		if !e.Wake.IsZero() {
			timer.Reset(max(0, time.Until(e.Wake)))
		}
	}
}

func (v *Voter) logAnswer(q question, backs bool) { //nolint:revive // flag-parameter: it is logged
	if backs {
		v.backed.Add(1)
		v.logger.Info("backs a node that campaigns, because the leader is gone", "node", q.from, "leader",
			q.asks.Leader, "term", q.asks.Term)
	}
}

// facts returns the input of the machine.
func (v *Voter) facts(c consensus) succession.Facts {
	f := raftFacts(v.membership)
	f.Links = func(node session.Node) succession.Links { return succession.Links(c.network.Links(node)) }
	return f
}

// raftFacts returns what Raft says. Term and leader belong together: Raft forgets the leader before the term rises.
func raftFacts(m *members.Membership) (f succession.Facts) {
	running := m.Raft()
	if running == nil {
		return f
	}
	for same := false; !same; same = f.Term == running.CurrentTerm() {
		f.Term = running.CurrentTerm()
		state := running.State()
		f.Leads, f.Follows = state == raft.Leader, state == raft.Follower
		_, id := running.LeaderWithID()
		f.Leader, _, _ = raftnet.ParseServerID(id) // 0 for no leader
	}
	f.Voters = nil
	for _, server := range m.Servers() {
		if node, _, err := raftnet.ParseServerID(server.ID); err == nil && server.Suffrage == raft.Voter {
			f.Voters = append(f.Voters, node)
		}
	}
	f.Silence = time.Since(running.LastContact())
	f.Last = func() succession.Entry { return lastEntry(running) } // too expensive for each probe
	return f
}

// lastEntry returns the last entry of the log, as Raft compares it when it votes.
func lastEntry(running *raft.Raft) succession.Entry {
	stats := running.Stats()
	read := func(of string) succession.Entry {
		term, _ := strconv.ParseUint(stats["last_"+of+"_term"], 10, 64)
		index, _ := strconv.ParseUint(stats["last_"+of+"_index"], 10, 64)
		return succession.Entry{Term: term, Index: index}
	}
	log, snapshot := read("log"), read("snapshot")
	if log.Index >= snapshot.Index {
		return log
	}
	return snapshot
}

// do does what the machine returned.
func (v *Voter) do(ctx context.Context, c consensus, e succession.Effects) {
	if probe := e.Probe; probe != nil {
		v.probes.Add(1)
		v.logger.Debug("asking the leader's address whether it leads", "leader", probe.Leader, "term", probe.Term)
		v.asking.Go(func() {
			found := v.probe(ctx, c, *probe)
			v.logger.Debug("asked the leader's address", "leader", probe.Leader, "term", probe.Term, "found", found)
			v.report(ctx, func(now time.Time, f succession.Facts) succession.Effects {
				return v.machine.Found(now, f, probe.Number, found)
			})
		})
	}
	if canvass := e.Canvass; canvass != nil {
		in := inquiry{
			Leader: canvass.Leader, Term: canvass.Term, LastTerm: canvass.Last.Term, LastIndex: canvass.Last.Index,
		}
		for _, voter := range canvass.Voters {
			v.asking.Go(func() {
				out, err := v.ask(ctx, c, voter, in, succession.Bond)
				v.logger.Debug("asked a voter to back this node", "node", voter, "leader", in.Leader, "term", in.Term,
					"backs", out.Backs, "error", err)
				if !out.Backs {
					return
				}
				v.report(ctx, func(now time.Time, f succession.Facts) succession.Effects {
					return v.machine.Backed(now, f, canvass.Number, voter)
				})
			})
		}
	}
	if campaign := e.Campaign; campaign != nil {
		v.asking.Go(func() { v.campaign(c, *campaign) })
	}
}

func (v *Voter) report(ctx context.Context, r result) {
	select {
	case v.results <- r:
	case <-ctx.Done():
	}
}

// probe asks the address of the leader whether a process there leads.
func (v *Voter) probe(ctx context.Context, c consensus, p succession.Probe) succession.Finding {
	return finding(v.ask(ctx, c, p.Leader, inquiry{Probe: true, Term: p.Term}, time.Until(p.Until)))
}

// finding returns what the outcome of a probe says.
func finding(out reply, err error) succession.Finding {
	switch {
	case errors.Is(err, raftnet.ErrRefused):
		return succession.Refused
	case err != nil || !out.Received:
		return succession.Unclear
	case out.Leads:
		return succession.Leading
	default:
		return succession.NotLeading
	}
}

// ask asks a node.
func (v *Voter) ask(ctx context.Context, c consensus, node session.Node, in inquiry, timeout time.Duration) (
	out reply, err error,
) {
	server, _, ok := v.membership.Member(node)
	if !ok {
		return out, session.ErrWrongCluster
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	answer, err := c.network.Ask(ctx, server.Address, b)
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out, err
}

// campaign makes Raft campaign, if nothing has changed since the decision.
func (v *Voter) campaign(c consensus, d succession.Campaign) {
	current := func() bool { return d.Current(v.facts(c)) }
	if err := c.transport.Campaign(v.id, current); err != nil {
		v.logger.Info("not campaigning after all", "leader", d.Leader, "term", d.Term, "error", err)
		return
	}
	v.started.Add(1)
	v.logger.Info("campaigning, because the leader is gone", "leader", d.Leader, "term", d.Term,
		"evidence", d.Evidence, "backers", slices.Clone(d.Backers), "after", time.Since(d.Since))
}
