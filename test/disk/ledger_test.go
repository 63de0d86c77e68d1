//go:build e2e

package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

const (
	// workers is the number of workers, each with sessions of its own.
	workers = 4
	// heldByWorker bounds the sessions of a worker.
	heldByWorker = 8
	// opTimeout bounds one open, move or close. It includes a recovery of the whole cluster.
	opTimeout = 2 * recoverWithin
	// opLabel labels a session with the number of its open, so that an unanswered open can be found.
	opLabel = "op"
)

// ledger records what the cluster has acknowledged, and checks that the cluster keeps it.
type ledger struct {
	t       *testing.T
	c       *cluster
	clients [2 * workers]*client.Client

	stop    context.CancelFunc
	running sync.WaitGroup
	// quiet is locked for reading during an operation, and for writing during an audit.
	quiet sync.RWMutex

	mu       sync.Mutex
	accounts []*account         // guarded by mu
	ids      map[session.ID]int // guarded by mu; the number of the open that returned each id
	counts   ledgerCounts       // guarded by mu
	breaches []error            // guarded by mu
	told     int                // breaches that an audit has returned; guarded by mu
	// lying says that the disks may have lost what was acknowledged: breaches are no longer the cluster's fault.
	lying bool
}

type ledgerCounts struct {
	// Opened, Moved and Closed count acknowledged operations, Unknown those not answered in time. Stolen counts moves that
	// another client's move from a lost node undid at the same time: the later one wins (M1 a resume is a move).
	Opened, Moved, Closed, Unknown, Stolen int
	// Written counts acknowledged writes to the tree.
	Written int
	// Audits counts comparisons of all records with the cluster, Checked the sessions and certificates in them, Entries
	// those of the tree.
	Audits, Checked, Entries int
}

// account is the record of one session. Its worker owns held, on and entries; the ledger's mu guards the rest.
type account struct {
	op   int
	held *client.Session
	on   int // the client that holds it
	// moved says that one client has taken it from the other.
	moved bool
	// entries is what the session has written; its worker's, too.
	entries entries

	id    session.ID
	token session.Token
	// attachment is the newest attachment that was acknowledged or seen.
	attachment uint64
	// doubtful says that the session may exist or not: its open was not answered, or its close was not acknowledged.
	doubtful bool
	// ended says that its end was acknowledged or seen, certified that its certificate was seen.
	ended, certified bool
}

// newLedger starts the work on a cluster.
func newLedger(c *cluster, seed uint64) *ledger {
	c.t.Helper()
	l := &ledger{t: c.t, c: c, ids: map[session.ID]int{}}
	var endpoints []string
	for _, s := range c.nodes {
		endpoints = append(endpoints, s.clients)
	}
	for i := range l.clients {
		x, err := client.New(client.Config{Endpoints: endpoints, MaxBackoff: 200 * time.Millisecond})
		timeout.Check(c.t, err)
		l.clients[i] = x
		c.t.Cleanup(func() { x.Close() })
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for w := range workers {
		dice := rand.New(rand.NewPCG(seed, uint64(w)))
		l.running.Go(func() { l.work(ctx, w, dice) })
	}
	c.t.Cleanup(l.end) // before the clients and the cluster end
	return l
}

// end ends the work, and fails the test for each breach that no audit has returned: the test may have timed out before.
func (l *ledger) end() {
	l.stop()
	l.running.Wait()
	if l.lying {
		return
	}
	l.still()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, breach := range l.breaches[l.told:] {
		l.t.Error(breach)
	}
}

// breach records that the cluster did not keep what it had acknowledged. The format has errors as %v: a deadline
// excuses no breach.
func (l *ledger) breach(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaches = append(l.breaches, fmt.Errorf(format, args...))
}

// work opens, moves and closes sessions, and writes for them, until ctx ends.
func (l *ledger) work(ctx context.Context, worker int, dice *rand.Rand) {
	var mine []*account
	for ctx.Err() == nil {
		l.quiet.RLock()
		op, cancel := context.WithTimeout(ctx, opTimeout)
		switch n := dice.IntN(20); {
		case len(mine) > 0 && n >= 10:
			l.write(op, mine[dice.IntN(len(mine))])
		case len(mine) == 0, n < 4 && len(mine) < heldByWorker:
			if a := l.open(op, 2*worker+dice.IntN(2)); a != nil {
				mine = append(mine, a)
			}
		case n < 8:
			i := dice.IntN(len(mine))
			if mine[i].moved { // another move would wait for half of the timeout (M7 no take-over from a living holder)
				l.write(op, mine[i])
			} else if !l.move(op, mine[i]) {
				mine = append(mine[:i], mine[i+1:]...)
			}
		default:
			i := dice.IntN(len(mine))
			l.close(op, mine[i])
			mine = append(mine[:i], mine[i+1:]...)
		}
		cancel()
		l.quiet.RUnlock()
		pause := time.NewTimer(time.Duration(dice.IntN(int(4 * time.Millisecond))))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// open opens a session. It returns nil when the answer does not come in time.
func (l *ledger) open(ctx context.Context, on int) *account {
	l.mu.Lock()
	a := &account{op: len(l.accounts), on: on, doubtful: true}
	l.accounts = append(l.accounts, a)
	l.mu.Unlock()
	s, err := l.clients[on].Open(ctx,
		client.SessionOptions{Timeout: sessionTimeout, Labels: map[string]string{opLabel: strconv.Itoa(a.op)}})
	if err != nil {
		l.unanswered(ctx, err, "open %d", a.op)
		return nil
	}
	l.mu.Lock()
	other, again := l.ids[s.ID()]
	l.ids[s.ID()] = a.op
	a.held, a.id, a.doubtful = s, s.ID(), false
	l.counts.Opened++
	l.mu.Unlock()
	l.attached(a, s.Token(), 0)
	if again && other != a.op {
		l.breach("I7: open %d was given the id %s, which open %d was given before", a.op, s.ID(), other)
	}
	return a
}

// attached records an acknowledged attachment. It must be above another one.
func (l *ledger) attached(a *account, t session.Token, above uint64) {
	if t.Attachment <= above {
		l.breach("session %s (open %d) was given attachment %d after %d: a move was lost", a.id, a.op, t.Attachment,
			above)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.token, a.attachment = t, max(a.attachment, t.Attachment)
}

// move moves a session to the worker's other client. It reports false unless the move is known to have worked.
func (l *ledger) move(ctx context.Context, a *account) bool {
	from := a.held.Token() // the client may have moved it meanwhile, away from a lost node
	s, err := l.clients[a.on^1].Resume(ctx, from)
	if err != nil {
		l.lost(ctx, a, err, "move")
		return false
	}
	select {
	case <-a.held.Done(): // the former client hears of the move
	case <-s.Done():
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // or the work is over
			l.breach("session %s (open %d) was moved, and who held it has not heard of that in time", a.id, a.op)
		}
	}
	a.held, a.on, a.moved = s, a.on^1, true
	l.mu.Lock()
	l.counts.Moved++
	l.mu.Unlock()
	l.attached(a, s.Token(), from.Attachment)
	if s.Err() != nil {
		l.lost(ctx, a, s.Err(), "move")
		return false
	}
	return true
}

// close ends a session.
func (l *ledger) close(ctx context.Context, a *account) {
	l.mu.Lock()
	a.doubtful = true
	l.mu.Unlock()
	if err := a.held.Close(ctx); err != nil {
		l.lost(ctx, a, err, "close")
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.ended = true
	l.counts.Closed++
}

// lost records an operation's error. From then on no client is known to hold the session, but it must still exist.
func (l *ledger) lost(ctx context.Context, a *account, err error, what string) {
	a.held = nil
	if errors.Is(err, session.ErrMoved) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.counts.Stolen++
		return
	}
	l.unanswered(ctx, err, "%s of session %s (open %d)", what, a.id, a.op)
}

// unanswered records an operation without an answer. Any error except a time-out is a breach: all sessions in question
// exist.
func (l *ledger) unanswered(ctx context.Context, err error, format string, args ...any) {
	if ctx.Err() == nil {
		l.breach(format+": %v", append(args, err)...)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unknown++
}

// still reports what clients have heard about the sessions that they hold. It records the attachments of moves that
// clients made by themselves.
func (l *ledger) still() {
	l.mu.Lock()
	accounts := append([]*account(nil), l.accounts...)
	l.mu.Unlock()
	for _, a := range accounts {
		if a.held == nil || a.doubtful || a.ended {
			continue
		}
		if err := a.held.Err(); err != nil {
			if errors.Is(err, session.ErrMoved) {
				continue // its worker will notice
			}
			l.breach("session %s (open %d) has ended for its client: %v", a.id, a.op, err)
			continue
		}
		l.attached(a, a.held.Token(), 0)
	}
}

// audit waits for the operations under way, and compares everything acknowledged with the cluster's answers to
// linearizable reads. Work goes on after it.
func (l *ledger) audit(digests bool) error { //nolint:revive // flag-parameter: set when all nodes are up
	l.quiet.Lock()
	defer l.quiet.Unlock()
	l.still()
	ctx, cancel := context.WithTimeout(context.Background(), recoverWithin)
	defer cancel()
	found, err := l.list(ctx)
	if err != nil {
		return fmt.Errorf("read all sessions: %w", err)
	}
	if err = l.compare(ctx, found); err != nil {
		return err
	}
	if err = l.compareTree(ctx, found); err != nil {
		return err
	}
	if digests {
		err = l.c.digests()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Audits++
	l.told = len(l.breaches)
	return timeout.Join(append(slices.Clone(l.breaches), err)...)
}

// list returns all sessions, by the numbers of their opens.
func (l *ledger) list(ctx context.Context) (map[int]session.Session, error) {
	found := map[int]session.Session{}
	for token := ""; ; {
		page, err := l.c.asker.List(ctx, client.ListOptions{PageSize: session.MaxPage, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, listed := range page.Sessions {
			s := listed.Session
			op := -1
			for _, label := range s.Labels {
				if label.Key == opLabel {
					op, err = strconv.Atoi(label.Value)
				}
			}
			if twin, twice := found[op]; twice || op < 0 || err != nil {
				l.breach("session %s carries the labels %v; so does %s", s.ID, s.Labels, twin.ID)
			}
			found[op] = s
		}
		if page.Next == "" {
			return found, nil
		}
		token = page.Next
	}
}

func (l *ledger) compare(ctx context.Context, found map[int]session.Session) error {
	for op := range found {
		if op >= len(l.accounts) {
			l.breach("the cluster has a session of open %d, and there was none", op)
		}
	}
	for _, a := range l.accounts {
		s, there := found[a.op]
		if a.certified && !there {
			continue
		}
		if a.id != 0 || there {
			l.mu.Lock()
			l.counts.Checked++
			l.mu.Unlock()
		}
		switch {
		case there && a.ended:
			l.breach("session %s (open %d) was closed, and is there again: %+v", s.ID, a.op, s)
		case there && a.id != 0 && s.ID != a.id:
			l.breach("open %d was answered with %s, and the cluster has it as %s", a.op, a.id, s.ID)
		case there && s.Attachment < a.attachment:
			l.breach("session %s (open %d) has attachment %d, and %d was acknowledged: a move was lost", s.ID, a.op,
				s.Attachment, a.attachment)
		case there:
			a.id, a.attachment = s.ID, max(a.attachment, s.Attachment)
		case a.id == 0: // the open was never answered, and never happened
		case !a.ended && !a.doubtful:
			l.breach("session %s (open %d) was acknowledged, and is lost", a.id, a.op)
			a.ended, a.certified = true, true // report it once
		default:
			if err := l.certificate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// certificate checks that the end of a session was a close, and that its certificate is known.
func (l *ledger) certificate(ctx context.Context, a *account) error {
	a.ended = true
	got, err := l.c.asker.Get(ctx, a.id)
	switch {
	case errors.Is(err, session.ErrExpired):
		l.breach("session %s (open %d) has ended, and its certificate is lost", a.id, a.op)
	case err != nil:
		return fmt.Errorf("read the certificate of %s: %w", a.id, err)
	case got.Certificate == nil || got.Certificate.Cause != session.CauseClosed:
		l.breach("session %s (open %d) was closed, and the cluster says %+v", a.id, a.op, got)
	}
	a.certified = true
	return nil
}

// tally returns the counts so far.
func (l *ledger) tally() ledgerCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}
