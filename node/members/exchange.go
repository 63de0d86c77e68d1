package members

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Exchange exchanges [peerInfo] with the other nodes on Raft's port: this node learns whether it may run Raft,
// and nodes compare their settings. Safe for concurrent use.
type Exchange struct {
	cfg ExchangeConfig
	// admitted is closed once this node is admitted, and its log has begun if it is a founder.
	admitted chan struct{}
}

// ExchangeConfig is what Exchange needs of the rest of the node. Raft must run.
type ExchangeConfig struct {
	Logger     hclog.Logger
	Interval   time.Duration
	Pulse      session.Pulse
	Directory  Directory
	Network    Network
	Membership *Membership
	Admission  *Admission
	OlderCopy  *OlderCopyCheck
	// Applied returns the newest index that this node has applied.
	Applied func() uint64
	// Fail ends the node.
	Fail func(error)
}

// NewExchange returns an exchange that begins with Run.
func NewExchange(cfg ExchangeConfig) *Exchange {
	return &Exchange{cfg: cfg, admitted: make(chan struct{})}
}

// Run asks each of the other nodes while this node has no vote or knows no leader, until ctx ends. It does not end with
// the admission: another process may get this node's place in the cluster, and this node then has to come back.
func (e *Exchange) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { e.awaitReports(ctx) })
	if e.cfg.Admission.Admitted() {
		close(e.admitted)
	} else if founders := e.cfg.Admission.foundAlone(); founders != nil {
		e.admitSelf(ctx, founders)
	}
	wg.Go(func() { e.askAll(ctx) })
	ticker := time.NewTicker(warnInterval)
	defer ticker.Stop()
	if w, ok := errors.AsType[*waitingError](e.cfg.Admission.Check()); ok {
		e.cfg.Logger.Info("waiting for " + w.awaited())
	}
	members := differencesLog{
		differ: "Raft's configuration and this node's peers differ",
		same:   "Raft's configuration and this node's peers agree again",
	}
	settings := differencesLog{
		differ: "settings differ between nodes: the node that leads uses its own; make them the same on every node",
		same:   "the settings of all known nodes are the same again",
	}
	members.write(e.cfg.Logger, e.cfg.Membership.Differences())
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		members.write(e.cfg.Logger, e.cfg.Membership.Differences())
		settings.write(e.cfg.Logger, e.cfg.Admission.SettingsDifferences())
		if err := e.cfg.Admission.Check(); err != nil {
			e.cfg.Logger.Warn("waits for admission to the cluster", "reason", err)
		}
		if foreign := e.cfg.Admission.Foreign(); len(foreign) > 0 {
			e.cfg.Logger.Error("nodes belong to another cluster with this cluster_id and cannot join: their data "+
				"directories were not made together with this one's", "nodes", foreign)
		}
	}
}

// askAll asks each of the other nodes for as long as this node knows it.
func (e *Exchange) askAll(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	running := map[config.Peer]context.CancelFunc{}
	ticker := e.cfg.Pulse.Ticker(e.cfg.Interval)
	defer ticker.Stop()
	for {
		others := e.cfg.Membership.others()
		for p, stop := range running {
			if !slices.Contains(others, p) {
				stop()
				delete(running, p)
			}
		}
		for _, p := range others {
			if running[p] == nil {
				one, cancel := context.WithCancel(ctx)
				running[p] = cancel
				wg.Go(func() {
					defer cancel()
					e.askRepeatedly(one, p)
				})
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// askRepeatedly asks one other node at intervals, and at once when there is news for it.
func (e *Exchange) askRepeatedly(ctx context.Context, p config.Peer) {
	ticker := e.cfg.Pulse.Ticker(e.cfg.Interval)
	defer ticker.Stop()
	for {
		news := e.cfg.Admission.news()
		if e.isDue(p) {
			met, version, err := e.ask(ctx, p)
			if err != nil {
				e.cfg.Admission.unreached(p.Node, err)
			} else if founders := e.cfg.Admission.learn(met, version); founders != nil {
				e.admitSelf(ctx, founders)
			}
		}
		select {
		case <-ticker.C:
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// isDue reports whether a request to another node is due.
func (e *Exchange) isDue(p config.Peer) bool {
	_, leader := e.cfg.Membership.Raft().LeaderWithID()
	return leader == "" || !e.cfg.Admission.Admitted() || !e.cfg.Membership.IsVoter() ||
		e.cfg.Admission.settings.isDue(p.Node, time.Now())
}

// ask sends this node's request to a node. version is the version of Admission's directories in the request.
func (e *Exchange) ask(ctx context.Context, p config.Peer) (met raftnet.Met, version uint64, err error) {
	request, version := e.cfg.Admission.request(e.cfg.Applied())
	met, err = e.cfg.Network.Meet(ctx, p.Raft, request)
	return met, version, err
}

// admitSelf admits this node: the founders are on its disk before Raft sends anything. A founder's log then begins with
// the first configuration. The log of a node that the leader adds comes from the leader.
func (e *Exchange) admitSelf(ctx context.Context, founders raftnet.Directories) {
	if err := e.cfg.Directory.Admit(founders); err != nil {
		e.cfg.Fail(err)
		return
	}
	e.cfg.Admission.foundersPersisted(founders)
	first, err := e.cfg.Membership.FirstConfiguration(e.cfg.Admission.FoundedHere())
	if err != nil {
		e.cfg.Fail(err)
		return
	}
	if first != nil {
		// The future is ignored, because Raft never answers it when the write fails.
		_ = e.cfg.Membership.Raft().BootstrapCluster(*first)
		e.awaitLog(ctx)
	}
	close(e.admitted)
	e.cfg.Logger.Info("admitted to the cluster", "directory", e.cfg.Membership.OwnDirectory(), "founder", first != nil)
}

// awaitLog waits until Raft's log has an entry, or ctx ends.
func (e *Exchange) awaitLog(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for e.cfg.Membership.Raft().LastIndex() == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// NewestStream asks a node for the newest stream that the node opened to a leader (T6 newest stream only). It is false
// for a node that this node does not know or cannot reach.
func (e *Exchange) NewestStream(ctx context.Context, node session.Node) (session.Hello, bool) {
	p := e.cfg.Membership.PeerOf(node)
	if p.Node != node {
		return session.Hello{}, false
	}
	met, _, err := e.ask(ctx, p)
	if err != nil || met.Node != node {
		return session.Hello{}, false
	}
	var answer peerInfo
	if err := json.Unmarshal(met.Answer, &answer); err != nil || answer.Incarnation == 0 {
		return session.Hello{}, false
	}
	return session.Hello{
		Node: node, Directory: uint64(met.Directory), Incarnation: answer.Incarnation, Stream: answer.Stream,
	}, true
}
