package zk_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/session"
	"holdfast/tree"
)

var (
	i17Seeds = flag.Int("i17-seeds", 3, "runs of TestI17")
	i17First = flag.Uint64("i17-first", 1, "the first of its seeds")
)

const (
	// strictTimeout is the clients' requested and negotiated timeout.
	strictTimeout = 6 * time.Second
	// faultsOfRun are the faults of a run, faultPause is the longest time between the beginnings of two.
	faultsOfRun, faultPause = 24, 12 * time.Second
	// clientsOfRun are judged.
	clientsOfRun = 6
	// writeEvery is the time between two changes that all clients watch.
	writeEvery = 150 * time.Millisecond
)

// judge holds the clients against the ends of sessions. Safe for concurrent use.
type judge struct {
	t       *testing.T
	clients []*strict

	mu sync.Mutex
	// ended are the ephemerals of sessions that an observer has seen going; guarded by mu.
	ended map[string]time.Time
}

// deleted is called when an observer sees an ephemeral deleted. Its session has ended then or earlier: no client may
// still believe that it has the session (I17).
func (j *judge) deleted(kind int32, path string) {
	if kind != int32(tree.EntryDeleted) {
		return
	}
	j.mu.Lock()
	_, known := j.ended[path]
	if !known {
		j.ended[path] = time.Now()
	}
	j.mu.Unlock()
	for _, s := range j.clients {
		if believes, last := s.believes(path); believes && !known {
			j.t.Errorf("I17: the session of %s has ended, and its client is connected: it heard the last byte %v ago", path,
				time.Since(last))
		}
	}
}

// TestI17 runs clients with exact timing, to the nanosecond, over cut links, and checks each expiry: before it, the
// client has given its server up (I17, Z5 disconnected before expired). Bytes from clients may get lost while those to
// them arrive, and there is always an event to send.
func TestI17(t *testing.T) {
	var all figures
	ended := 0
	for seed := *i17First; seed < *i17First+uint64(*i17Seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			run(t, func(c *world) {
				j := judged(c, seed)
				ended += len(j.ended)
				for _, s := range j.clients {
					all.sessions += s.figures.sessions
					all.moves += s.figures.moves
					all.gaveUp += s.figures.gaveUp
					all.closed += s.figures.closed
					all.expired += s.figures.expired
					all.events += s.figures.events
					for id := range s.lived {
						path := fmt.Sprintf("/e/%x", uint64(id))
						if _, is := j.ended[path]; !is && id != s.id {
							c.T.Errorf("nobody has seen the end of the session of %s", path)
						}
					}
				}
			})
		})
	}
	t.Logf("%d expiries judged; %+v", ended, all)
	if ended == 0 || all.gaveUp == 0 || all.closed == 0 || all.moves == 0 || all.events == 0 {
		t.Error("some kind of thing never happened")
	}
}

// judged is one run.
func judged(c *world, seed uint64) *judge {
	t := c.T
	t.Helper()
	z, _ := served(t, c, "z", 10*time.Second)
	for _, path := range []string{"/e", "/w"} {
		must[string](t)(z.Create(path, nil, 0, open))
	}
	c.Seed(seed)
	r := rand.New(rand.NewPCG(seed, 17))
	j := &judge{t: t, ended: map[string]time.Time{}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	begin := func(host, watches string, mode int32, heard func(int32, string), nodes ...string) *strict {
		s := &strict{
			c: c, host: host, Rand: rand.New(rand.NewPCG(seed, r.Uint64())), nodes: nodes, watches: watches, mode: mode,
			heard: heard, asks: strictTimeout, lived: map[session.ID]bool{},
		}
		all.Go(func() { s.run(ctx) })
		return s
	}
	for i := range clientsOfRun {
		j.clients = append(j.clients, begin(fmt.Sprint("c", i), "/w", 0, nil, c.Names...))
	}
	for _, node := range c.Names { // whose own links have no faults
		begin("o"+node, "/e", 1, j.deleted, node)
	}
	all.Go(func() { writes(ctx, z) })
	for range faultsOfRun {
		f := fault17(c, r)
		all.Go(func() { f(ctx) })
		time.Sleep(time.Duration(r.Int64N(int64(faultPause))))
	}
	time.Sleep(10 * strictTimeout)
	stop()
	all.Wait()
	return j
}

// writes changes an entry that all clients watch, so that a node always has events for them.
func writes(ctx context.Context, z *zookeeper.Conn) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = z.Set("/w", nil, -1) // at times there is no leader
		case <-ctx.Done():
			return
		}
	}
}

// fault17 returns a fault, which ends on its own. A byte to a client is either in flight for a moment, or so late that
// the client has given up its connection: no server can handle the delays in between (Z5).
func fault17(c *world, r *rand.Rand) func(ctx context.Context) {
	client, node := fmt.Sprint("c", r.IntN(clientsOfRun)), c.Names[r.IntN(len(c.Names))]
	short := time.Second + time.Duration(r.Int64N(int64(4*strictTimeout)))
	long := strictTimeout*2/3 + short
	lasting := 2*strictTimeout + short // a node that is away for so long loses sessions
	cut := func(d time.Duration, links ...[2]string) func(context.Context) {
		return func(ctx context.Context) {
			for _, l := range links {
				c.Cut(l[0], l[1])
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			for _, l := range links {
				c.Heal(l[0], l[1])
			}
		}
	}
	var from, to, everywhere [][2]string
	for _, n := range c.Names {
		everywhere = append(everywhere, [2]string{client, n})
		if n != node {
			from, to = append(from, [2]string{node, n}), append(to, [2]string{n, node})
		}
	}
	switch r.IntN(7) {
	case 0: // the node does not receive its client's bytes, and the client receives the node's
		return cut(short, [2]string{client, node})
	case 1: // no node receives its bytes
		return cut(short, everywhere...)
	case 2:
		return cut(long, [2]string{node, client})
	case 3:
		return cut(long, [2]string{node, client}, [2]string{client, node})
	case 4: // no other node receives the node's bytes
		return cut(lasting, from...)
	case 5: // the node receives no other node's bytes
		return cut(lasting, to...)
	default:
		return cut(lasting, append(from, to...)...)
	}
}
