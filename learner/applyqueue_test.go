package learner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// The queue notifies the same waiters as a plain list of all waits, in the same order, through a thousand random steps.
func TestTheApplyQueueIsAListOfWaits(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			q, view, log, _ := queued(t)
			random := rand.New(rand.NewPCG(seed, 1))
			type wait struct {
				name  string
				index uint64
				until time.Time
			}
			var list []wait
			applied := uint64(1)
			for step := range 1000 {
				var want []string
				switch random.IntN(4) {
				case 0:
					applied += random.Uint64N(4)
					view.apply(applied)
				case 1:
					time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
				default:
					w := wait{fmt.Sprint(step), applied + 1 + random.Uint64N(12), time.Now().Add(q.bound)}
					list = append(list, w)
					q.after(w.index, noted{w.name, log})
				}
				time.Sleep(2 * time.Millisecond) // the view looks for an index each millisecond
				slices.SortStableFunc(list, func(a, b wait) int {
					return min(1, max(-1, int(a.index)-int(b.index)))
				})
				list = slices.DeleteFunc(list, func(w wait) bool {
					if w.index <= applied {
						want = append(want, w.name)
					}
					return w.index <= applied
				})
				late := slices.Clone(list)
				slices.SortStableFunc(late, func(a, b wait) int { return a.until.Compare(b.until) })
				for _, w := range late {
					if !w.until.After(time.Now()) {
						want = append(want, w.name+": "+session.ErrLagging.Error())
					}
				}
				list = slices.DeleteFunc(list, func(w wait) bool { return !w.until.After(time.Now()) })
				if got := log.take(); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: told %q, want %q", seed, step, got, want)
				}
			}
		})
	}
}

// Only who holds a session may have a node wait for an index. A forged resume that names one far ahead is refused at
// once, alone and among others.
func TestN4AForgedResumeWaitsForNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		forged := w.token(1, 1)
		forged.Credential[0] ^= 1
		begun := time.Now()
		alone := w.starting(w.conn, session.Request{
			Resume: &session.ResumeRequest{Token: forged, Instance: 1, Attempt: 1, Seen: 1 << 40},
		})
		if g := <-alone; !errors.Is(g.err, session.ErrBadCredential) || time.Since(begun) > 0 {
			t.Errorf("told %v after %v, want %v at once", g.err, time.Since(begun), session.ErrBadCredential)
		}
		good := w.token(2, 1)
		told := make(chan []session.Resumed, 1)
		w.conn.StartResumes(session.ResumesRequest{
			Instance: 1, Seen: 1 << 40, Sessions: []session.Resuming{
				{ID: 1, Credential: forged.Credential, Attachment: 1, Attempt: 1},
				{ID: 2, Credential: good.Credential, Attachment: 1, Attempt: 2},
			},
		}, func(outcomes []session.Resumed) { told <- outcomes })
		synctest.Wait()
		q := w.server.wait.queue
		q.mu.Lock()
		waits := len(q.ages)
		q.mu.Unlock()
		if waits != 1 {
			t.Errorf("%d requests wait, want the one of who holds a session", waits)
		}
		outcomes := <-told
		if err := outcomes[0].Err; !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("the forged resume is told %v", err)
		}
		if err := outcomes[1].Err; !errors.Is(err, session.ErrLagging) {
			t.Errorf("the other one is told %v", err)
		}
		w.unasked("resumes that wait for an index far ahead")
	})
}
