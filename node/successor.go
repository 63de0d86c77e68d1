package node

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

	"holdfast/node/config"
	"holdfast/node/succession"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// successor makes this node stand for election as soon as a majority of the voters finds that the leader's process has
// ended. [succession.Machine] decides; successor tells it what Raft and its network say, and does what it returns. The
// machine belongs to the goroutine of run.
type successor struct {
	logger hclog.Logger
	pulse  session.Pulse
	roster *roster
	id     raft.ServerID

	// news gets a token when connections have changed. questions are those of other nodes, results the answers to this
	// node's own.
	news      chan struct{}
	questions chan question
	results   chan result
	machine   *succession.Machine
	// asking are the questions that this node has under way.
	asking sync.WaitGroup

	// looks, stood and backed count what this node did, for metrics.
	looks, stood, backed atomic.Uint64
}

// question is the question of another voter. answer has room for the answer.
type question struct {
	from   session.Node
	asks   succession.Question
	answer chan bool
}

// result tells the machine the outcome of what it asked for.
type result func(now time.Time, f succession.Facts) succession.Effects

// inquiry is a question between nodes, as JSON: does the asked node lead the term (Look), or does it back the asking
// one?
type inquiry struct {
	Look   bool         `json:"look,omitempty"`
	Leader session.Node `json:"leader,omitempty"`
	Term   uint64       `json:"term"`
	// LastTerm and LastIndex are the last entry of the asking node's log.
	LastTerm  uint64 `json:"last_term,omitempty"`
	LastIndex uint64 `json:"last_index,omitempty"`
}

// reply is the answer to an inquiry, as JSON. Heard says that the inquiry was understood.
type reply struct {
	Heard bool `json:"heard"`
	Leads bool `json:"leads,omitempty"`
	Backs bool `json:"backs,omitempty"`
}

func newSuccessor(cfg config.Config, of *roster, o Options) *successor {
	return &successor{
		logger: o.Logger, pulse: o.pulse, roster: of, id: serverID(of.self, of.mine),
		news: make(chan struct{}, 1), questions: make(chan question), results: make(chan result),
		machine: succession.New(of.self, cfg.Raft.HeartbeatTimeout*3/2),
	}
}

// linked notes that connections have changed.
func (s *successor) linked() { signal(s.news) }

// answer answers the inquiry of another node. A node that is not in the configuration on its directory is told nothing.
func (s *successor) answer(from session.Node, d raftnet.Directory, request []byte) []byte {
	var in inquiry
	if json.Unmarshal(request, &in) != nil || s.roster.named(from) != d {
		return nil
	}
	out := reply{Heard: true}
	if in.Look {
		out.Leads = succession.Leads(s.roster.facts(), in.Term)
	} else {
		out.Backs = s.backs(from, in)
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("node: encode a reply: " + err.Error()) // truth values can always be encoded
	}
	return b
}

// backs puts a question to the machine. Before run has begun, and after its end, the answer is no.
func (s *successor) backs(from session.Node, in inquiry) bool {
	q := question{from, succession.Question{
		Leader: in.Leader, Term: in.Term, Last: succession.Entry{Term: in.LastTerm, Index: in.LastIndex},
	}, make(chan bool, 1)}
	timer := time.NewTimer(succession.Patience)
	defer timer.Stop()
	select {
	case s.questions <- q:
		return <-q.answer
	case <-timer.C:
		return false
	}
}

// run is the loop of the machine. It runs until ctx ends.
func (s *successor) run(ctx context.Context, c *consensus) error {
	defer s.asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	// In calm the pulse comes before the timer, so that this process wakes for all its looks together.
	calm := s.pulse.Ticker(s.machine.Calm())
	defer calm.Stop()
	for {
		var e succession.Effects
		select {
		case <-s.news:
			e = s.machine.Wake(time.Now(), s.facts(c))
		case <-c.watch.news:
			e = s.machine.Wake(time.Now(), s.facts(c))
		case <-calm.C:
			e = s.machine.Wake(time.Now(), s.facts(c))
		case <-timer.C:
			e = s.machine.Wake(time.Now(), s.facts(c))
		case q := <-s.questions:
			var backs bool
			backs, e = s.machine.Asked(time.Now(), s.facts(c), q.from, q.asks)
			q.answer <- backs
			s.tell(q, backs)
		case r := <-s.results:
			e = r(time.Now(), s.facts(c))
		case <-ctx.Done():
			return nil
		}
		s.do(ctx, c, e)
		timer.Stop()
		if !e.Wake.IsZero() {
			timer.Reset(max(0, time.Until(e.Wake)))
		}
	}
}

func (s *successor) tell(q question, backs bool) { //nolint:revive // flag-parameter: it is logged
	if backs {
		s.backed.Add(1)
		s.logger.Info("backs a node that stands for election, as the leader is gone", "node", q.from, "leader",
			q.asks.Leader, "term", q.asks.Term)
	}
}

// facts returns what the machine is told.
func (s *successor) facts(c *consensus) succession.Facts {
	f := s.roster.facts()
	f.Links = func(node session.Node) succession.Links { return succession.Links(c.layer.Links(node)) }
	return f
}

// facts returns what Raft says. Term and leader belong together: Raft forgets the leader before the term rises.
func (r *roster) facts() (f succession.Facts) {
	running := r.raft.Load()
	if running == nil {
		return f
	}
	for same := false; !same; same = f.Term == running.CurrentTerm() {
		f.Term = running.CurrentTerm()
		state := running.State()
		f.Leads, f.Follows = state == raft.Leader, state == raft.Follower
		_, id := running.LeaderWithID()
		f.Leader, _, _ = nodeOfServer(id) // 0 for no leader
	}
	f.Voters = nil
	for _, server := range r.servers() {
		if node, _, err := nodeOfServer(server.ID); err == nil && server.Suffrage == raft.Voter {
			f.Voters = append(f.Voters, node)
		}
	}
	f.Silence = time.Since(running.LastContact())
	f.Last = func() succession.Entry { return lastEntry(running) } // too dear for each look
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
func (s *successor) do(ctx context.Context, c *consensus, e succession.Effects) {
	if look := e.Look; look != nil {
		s.looks.Add(1)
		s.logger.Debug("asking the leader's address whether it leads", "leader", look.Leader, "term", look.Term)
		s.asking.Go(func() {
			found := s.look(ctx, c, *look)
			s.logger.Debug("asked the leader's address", "leader", look.Leader, "term", look.Term, "found", found)
			s.report(ctx, func(now time.Time, f succession.Facts) succession.Effects {
				return s.machine.Found(now, f, look.Number, found)
			})
		})
	}
	if canvass := e.Canvass; canvass != nil {
		in := inquiry{
			Leader: canvass.Leader, Term: canvass.Term, LastTerm: canvass.Last.Term, LastIndex: canvass.Last.Index,
		}
		for _, voter := range canvass.Voters {
			s.asking.Go(func() {
				out, err := s.ask(ctx, c, voter, in, succession.Bond)
				s.logger.Debug("asked a voter to back this node", "node", voter, "leader", in.Leader, "term", in.Term,
					"backs", out.Backs, "error", err)
				if !out.Backs {
					return
				}
				s.report(ctx, func(now time.Time, f succession.Facts) succession.Effects {
					return s.machine.Backed(now, f, canvass.Number, voter)
				})
			})
		}
	}
	if stand := e.Stand; stand != nil {
		s.asking.Go(func() { s.stand(c, *stand) })
	}
}

func (s *successor) report(ctx context.Context, r result) {
	select {
	case s.results <- r:
	case <-ctx.Done():
	}
}

// look asks the address of the leader whether a process there leads.
func (s *successor) look(ctx context.Context, c *consensus, look succession.Look) succession.Finding {
	return finding(s.ask(ctx, c, look.Leader, inquiry{Look: true, Term: look.Term}, time.Until(look.Until)))
}

// finding returns what the outcome of a look says.
func finding(out reply, err error) succession.Finding {
	switch {
	case errors.Is(err, raftnet.ErrRefused):
		return succession.Refused
	case err != nil || !out.Heard:
		return succession.Unclear
	case out.Leads:
		return succession.Leading
	default:
		return succession.NotLeading
	}
}

// ask asks a node.
func (s *successor) ask(ctx context.Context, c *consensus, node session.Node, in inquiry, timeout time.Duration) (
	out reply, err error,
) {
	server, _, ok := s.roster.directoryOf(node)
	if !ok {
		return out, session.ErrWrongCluster
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	b, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	answer, err := c.layer.Ask(ctx, server.Address, b)
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out, err
}

// stand makes Raft stand, if nothing has changed since the decision.
func (s *successor) stand(c *consensus, stand succession.Stand) {
	current := func() bool { return stand.Current(s.facts(c)) }
	if err := c.transport.Stand(s.id, current); err != nil {
		s.logger.Info("not standing for election after all", "leader", stand.Leader, "term", stand.Term, "error", err)
		return
	}
	s.stood.Add(1)
	s.logger.Info("standing for election, as the leader is gone", "leader", stand.Leader, "term", stand.Term,
		"evidence", stand.Evidence, "backers", slices.Clone(stand.Backers), "after", time.Since(stand.Since))
}
