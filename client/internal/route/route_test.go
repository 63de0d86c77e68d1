package route

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

var errNoAnswer = errors.New("no answer in time")

// passing returns a limit that passes after a while; 0: it does not say when.
func passing(after time.Duration) error {
	return &session.LimitError{Name: "max_opens_per_second", RetryAfter: after}
}

// A client retries only a limit that passes.
func TestOnlyPassingLimitsAreRetried(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want verdict
	}{
		{passing(time.Millisecond), Again},
		{passing(0), Final},
		{&session.LimitError{Name: "max_requests_per_connection", RetryAfter: session.BusyRetryAfter}, Again},
		{&session.LimitError{Name: "max_sessions_per_connection"}, Final},
	} {
		if got := Classify(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}

// Joined errors name every node that was asked. They are ErrUnreachable only when every node was silent.
func TestTogetherIsUnreachableOnlyWithoutAnyAnswer(t *testing.T) {
	dead, other := Unreachable("n1:7400", errNoAnswer), Unreachable("n2:7400", errNoAnswer)
	for _, tt := range []struct {
		errs        []error
		unreachable bool
		says        string
	}{
		{nil, false, ""},
		{[]error{nil, nil}, false, ""},
		{[]error{dead, nil, other}, true, dead.Error() + "\n" + other.Error()},
		{[]error{dead, session.ErrStopping, nil}, false, "n1:7400: no answer in time\nnode is stopping"},
		{[]error{fmt.Errorf("list members: %w", dead), session.ErrMoved}, false, "n1:7400: no answer in time\n" +
			session.ErrMoved.Error()},
		{
			[]error{errors.Join(context.DeadlineExceeded, dead, fmt.Errorf("ask: %w", other)), session.ErrMoved},
			false,
			"context deadline exceeded\nn1:7400: no answer in time\nn2:7400: no answer in time\n" +
				session.ErrMoved.Error(),
		},
	} {
		err := Together(tt.errs...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if errors.Is(err, ErrUnreachable) != tt.unreachable || said != tt.says {
			t.Errorf("%v: got %q, unreachable %v; want %q, %v", tt.errs, said, errors.Is(err, ErrUnreachable), tt.says,
				tt.unreachable)
		}
	}
}

func TestRouterForgetsTheOldestLearntAddress(t *testing.T) {
	m := Router{Servers: []string{"a:1"}}
	m.Learn([]string{"a:1", "b", "b:"})
	if len(m.Learnt) != 0 {
		t.Errorf("learnt %q", m.Learnt)
	}
	for i := range maxLearnt + 2 {
		address := string(rune('b'+i)) + ":1"
		m.Learn([]string{address, address})
	}
	if len(m.Learnt) != maxLearnt || slices.Contains(m.Learnt, "c:1") || !slices.Contains(m.Learnt, "d:1") {
		t.Errorf("learnt %q", m.Learnt)
	}
}

func TestRoundsComeToTheReadOnlyNodeLast(t *testing.T) {
	m := Router{}
	m.Plan([]string{"a:1", "b:1", "c:1"})
	m.Defer("a:1")
	m.Defer("d:1")
	var got []string
	for {
		next, ok := m.Pop()
		if !ok {
			break
		}
		got = append(got, next.Server)
	}
	if want := []string{"b:1", "c:1", "a:1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Full jitter: waits are spread evenly between 0 and a cap, which doubles from the fourth on.
func TestFullJitter(t *testing.T) {
	d := NewJitter(rand.NewPCG(1, 2), 50*time.Millisecond, 2*time.Second)
	for n, limit := 1, d.lowest; n < 60; n++ {
		if n > 3 {
			limit = min(2*limit, d.highest)
		}
		const draws, tenths = 2000, 10
		var count [tenths]int
		for range draws {
			w := d.Backoff(n)
			if w < 0 || w >= limit {
				t.Fatalf("wait %d is %v, of at most %v", n, w, limit)
			}
			count[w*tenths/limit]++
		}
		for i, got := range count {
			if got < draws/tenths*2/3 || got > draws/tenths*4/3 {
				t.Errorf("wait %d: %d of %d draws in tenth %d", n, got, draws, i)
			}
		}
	}
}

// The server that served last is not forgotten, because local sessions may only live there: not when the members of the
// cluster are learnt again, and not for want of room. A round for these sessions goes only there.
func TestTheServerThatServedLastIsNotForgotten(t *testing.T) {
	const last = "last:1"
	for name, learn := range map[string]func(m *Router){
		"no member": func(m *Router) { m.Replace([]string{"b:1", "c:1"}) },
		"the oldest of too many": func(m *Router) {
			for i := range 2 * maxLearnt {
				m.Learn([]string{fmt.Sprintf("n%d:1", i)})
			}
		},
		"never reached as a learnt one": func(m *Router) { m.reached = nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := Router{Servers: []string{"a:1"}}
			m.Learn([]string{last, "b:1"})
			m.Reached(last)
			m.Last = last
			learn(&m)
			m.Begin(NewJitter(rand.NewPCG(1, 2), 1, 1), Only, false)
			if want := []Target{{Server: last}}; !slices.Equal(m.Left, want) || len(m.Learnt) > maxLearnt {
				t.Errorf("the round is %v, want %v; learnt %v", m.Left, want, m.Learnt)
			}
			m.Last = "b:1"
			if m.Replace([]string{"b:1"}); slices.Contains(m.Learnt, last) {
				t.Errorf("learnt %q when another server serves, want that of no member forgotten", m.Learnt)
			}
		})
	}
}

// Notes about a learnt address are forgotten when it is configured, and when it is removed from the servers.
func TestConfiguredServersLeaveNothingBehind(t *testing.T) {
	m := Router{Servers: []string{"a:1"}}
	m.Learn([]string{"b:1", "c:1", "d:1"})
	m.Reached("b:1")
	m.Failed("c:1")
	m.Failed("d:1")
	m.Configure([]string{"b:1", "c:1"})
	if len(m.reached) > 0 || len(m.failed) != 1 || m.failed["d:1"] != 1 {
		t.Errorf("reached %v and failed %v, want the failure of d:1 alone", m.reached, m.failed)
	}
}

// A round in which every node that answered denies the client has a denial, and no other round has.
func TestDenial(t *testing.T) {
	silent := Unreachable("n1:7400", errNoAnswer)
	denied := []error{
		&session.AccessError{Needs: []string{"client"}}, &session.AccessError{Who: "token:web"},
		&session.TLSError{With: "n1:7400"}, fmt.Errorf("open: %w", session.ErrForbidden),
		errors.Join(session.ErrUnauthenticated, session.ErrForbidden),
	}
	for _, err := range denied {
		for _, tt := range []struct {
			met  []error
			want bool
		}{
			{nil, false},
			{[]error{silent}, false},
			{[]error{err}, true},
			{[]error{silent, err}, true},
			{[]error{err, silent}, true},
			{[]error{err, err}, true},
			{[]error{err, session.ErrNoLeader}, false},
			{[]error{session.ErrNoLeader, err}, false},
			{[]error{errors.Join(err, session.ErrNoLeader)}, false},
		} {
			var f Failure
			f.Met(session.ErrNoLeader)
			f.Ended() // answers of the previous round do not count
			for _, one := range tt.met {
				f.Met(one)
			}
			if got := f.Denial() != nil; got != tt.want {
				t.Errorf("%v: denied %v, want %v", tt.met, got, tt.want)
			}
		}
	}
}
