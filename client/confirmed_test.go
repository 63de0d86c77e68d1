package client

import (
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// S3: the second answer to a touch promises more, counted from the sending of the touch. Then the next touch is due
// later. A third answer, and an answer to no touch, promise nothing.
func TestASecondAnswerPromisesMore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 12*time.Second)
		n := c.node(1)
		c.set(func() { n.promise = func(time.Duration) time.Duration { return 8 * time.Second } })
		confirm := func(seq uint64, safeFor time.Duration) {
			touched := &holdfastv1.Touched{Seq: seq, SafeFor: wire.PromiseProto(safeFor)}
			n.broadcast(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: touched}})
			synctest.Wait()
		}
		time.Sleep(4500 * time.Millisecond)
		wantSafe(t, c, s, 12*time.Second)
		confirm(2, 11*time.Second)
		wantSafe(t, c, s, 15*time.Second)
		confirm(2, 12*time.Second)
		confirm(7, 12*time.Second)
		wantSafe(t, c, s, 15*time.Second)
		time.Sleep(6500 * time.Millisecond)
		synctest.Wait()
		// with the second answer the next touch is due after T/3, without it after T/4
		wantStrings(t, n.record(), "0s open", "4s touch", "8s touch", "11s touch")
	})
}

// S5, S3: after a suspension the second answer to an earlier touch promises nothing, like the first answer.
func TestASecondAnswerPromisesNothingAfterASuspension(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		w := newWallClock(cl.clock)
		s := mustOpen(t, cl, 12*time.Second)
		n := c.node(1)
		time.Sleep(4500 * time.Millisecond)
		c.set(func() { n.promise = func(time.Duration) time.Duration { return -1 } })
		w.advance(time.Minute)
		time.Sleep(time.Second)
		touched := &holdfastv1.Touched{Seq: 2, SafeFor: wire.PromiseProto(11 * time.Second)}
		n.broadcast(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: touched}})
		synctest.Wait()
		wantSafe(t, c, s, -1)
	})
}
