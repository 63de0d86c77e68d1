package roles

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/members"
	"holdfast/session"
	"holdfast/test/bubble"
)

// fakeRaft is a Raft that knows no leader but, when leads is set, this node.
type fakeRaft struct {
	leads atomic.Bool
	asked atomic.Int64
}

func (r *fakeRaft) State() raft.RaftState {
	r.asked.Add(1)
	if r.leads.Load() {
		return raft.Leader
	}
	return raft.Follower
}

func (r *fakeRaft) LeaderWithID() (raft.ServerAddress, raft.ServerID) { return "", "" }

// testConfig returns the configuration of a Runner that stalls while stalled is set.
func testConfig(r *fakeRaft, stalled *atomic.Bool) Config {
	return Config{
		Logger: hclog.NewNullLogger(), Node: 1, Interval: time.Second, Pulse: session.NewPulse(), Clock: time.Now,
		Stalled: func() error {
			if stalled.Load() {
				return errors.New("stalled")
			}
			return nil
		},
		StallPeriod: 100 * time.Millisecond, Raft: r, Membership: members.NewMembership(1, 1, nil),
		Announce: func(bool) {},
	}
}

// A node that stalls takes no role, and takes one soon after the stall.
func TestAStalledNodeTakesNoRole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var r fakeRaft
		var stalled atomic.Bool
		stalled.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- New(testConfig(&r, &stalled)).Run(ctx) }()
		time.Sleep(time.Minute)
		if n := r.asked.Load(); n != 0 {
			t.Errorf("the node looked for its role %d times while it stalled", n)
		}
		stalled.Store(false)
		time.Sleep(time.Second)
		if r.asked.Load() == 0 {
			t.Error("the node took no role after the stall")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Followers hear of a new leader before its tracker begins: their streams wait for the tracker (R5 start of a tracker),
// and no longer than the node leads and does not stall.
func TestR5AnEarlyStreamWaitsForTheTracker(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(*terms, *fakeRaft, *atomic.Bool)
		want bool
	}{
		"the tracker begins": {func(x *terms, _ *fakeRaft, _ *atomic.Bool) { x.setTracker(new(leader.Tracker)) }, true},
		"Raft steps down":    {func(_ *terms, r *fakeRaft, _ *atomic.Bool) { r.leads.Store(false) }, false},
		"the node stalls":    {func(_ *terms, _ *fakeRaft, stalled *atomic.Bool) { stalled.Store(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var r fakeRaft
				var stalled atomic.Bool
				r.leads.Store(true)
				x := newTerms(testConfig(&r, &stalled))
				found := make(chan *leader.Tracker, 1)
				go func() { found <- x.begun(t.Context()) }()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if len(found) > 0 {
					t.Fatal("the stream did not wait")
				}
				tt.then(x, &r, &stalled)
				time.Sleep(time.Second)
				select {
				case got := <-found:
					if (got != nil) != tt.want {
						t.Errorf("a tracker: %v, want %v", got != nil, tt.want)
					}
				default:
					t.Error("the stream waits on")
				}
			})
		})
	}
}

// shownMembers is a view that shows members.
type shownMembers struct {
	leader.View
	all []session.Member
}

func (s *shownMembers) Members() []session.Member { return s.all }

// An observer is told of the members at the beginning of a term and after each change, and never of a configuration
// that is unknown.
func TestMembersAreToldOnceEach(t *testing.T) {
	one := []session.Member{{Node: 1, Voter: true}}
	two := append(slices.Clone(one), session.Member{Node: 2})
	var told [][]session.Member
	shown := new(shownMembers)
	v := &memberView{View: shown, publish: func(all []session.Member) { told = append(told, all) }}
	for _, all := range [][]session.Member{nil, one, one, nil, one, two, two, one} {
		shown.all = all
		if got := v.Members(); !slices.Equal(got, all) {
			t.Errorf("got %v, want %v", got, all)
		}
	}
	if !slices.EqualFunc(told, [][]session.Member{one, two, one}, slices.Equal) {
		t.Errorf("told %v", told)
	}
}

// A node that leads a term again counts its rounds on (R3 good rounds); another term begins anew.
func TestR3RoundsOfATermGoOn(t *testing.T) {
	led := ledRounds{term: 7, newest: 40}
	if got := led.after(7); got != 40 {
		t.Errorf("the same term goes on from %d, want 40", got)
	}
	if got := led.after(8); got != 0 {
		t.Errorf("the next term goes on from %d, want 0", got)
	}
}
