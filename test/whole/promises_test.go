package whole_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/separate"
	"holdfast/test/whole"
	"holdfast/transport/dial"
)

// interval is the heartbeat interval by default, hop the way from one host to another in a bubble.
const (
	interval = 500 * time.Millisecond
	hop      = time.Millisecond
)

// least is what a healthy cluster promises at least for a touch, counted from its sending: the timeout less a
// hundredth, a millisecond, and one interval (S1 confirmed touches, S3 length of a promise), which a heartbeat's way
// may lengthen.
func least(timeout time.Duration) time.Duration {
	return timeout - timeout/100 - time.Millisecond - interval - 2*hop
}

// within bounds the time from the sending of a touch to its promise: two intervals and the way to the node and back,
// and of two heartbeats.
const within = 2*interval + 4*hop

var timeouts = map[time.Duration]float64{4 * time.Second: 0.86, 5 * time.Second: 0.88, 10 * time.Second: 0.92}

// S3: each touch of a healthy cluster is promised at least the timeout less an interval and the margins, at each node,
// by streams and by calls, whenever it comes. A stream gets two answers to a touch, a call one.
func TestPromisesOfAHealthyCluster(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		random := rand.New(rand.NewPCG(1, 2))
		for _, name := range c.Names {
			conn, err := grpc.NewClient("passthrough:///"+name+":7400",
				dial.DialOptions(dial.Options{Dial: c.Host("client-of-" + name).Dial})...)
			if err != nil {
				c.T.Fatal(err)
			}
			defer conn.Close()
			to := holdfastv1.NewSessionServiceClient(conn)
			for timeout, part := range timeouts {
				open := request()
				open.Timeout = durationpb.New(timeout)
				opened, err := to.OpenSession(c.T.Context(), open)
				if err != nil {
					c.T.Fatal(err)
				}
				judge := func(how string, promised, elapsed time.Duration) {
					if promised < least(timeout) || promised.Seconds() < part*timeout.Seconds() || elapsed > within {
						c.T.Errorf("%s at %s: %v of %v promised after %v, want at least %v and %.2f within %v", how, name,
							promised, timeout, elapsed, least(timeout), part, within)
					}
				}
				for range 40 {
					time.Sleep(timeout/4 - time.Duration(random.Int64N(int64(interval))))
					sent := time.Now()
					touched, err := to.TouchSessions(c.T.Context(), &holdfastv1.TouchSessionsRequest{
						Tokens: []*holdfastv1.Token{opened.GetToken()}, ConfirmWithin: durationpb.New(timeout / 3),
					})
					if err != nil {
						c.T.Fatal(err)
					}
					judge("a call", touched.GetResults()[0].GetSafeFor().AsDuration(), time.Since(sent))
				}
				streamed(c, to, timeout, judge)
			}
		}
	})
}

// streamed touches a session through a stream, at random moments, and judges the promises.
func streamed(c *whole.Cluster, to holdfastv1.SessionServiceClient, timeout time.Duration,
	judge func(how string, promised, elapsed time.Duration),
) {
	random := rand.New(rand.NewPCG(3, 4))
	ctx, cancel := context.WithCancel(c.T.Context())
	defer cancel()
	stream, err := separate.Stream(to.Connect(ctx))
	if err != nil {
		c.T.Fatal(err)
	}
	receive := func() *holdfastv1.ServerMessage {
		m, err := stream.Recv()
		if err != nil {
			c.T.Fatal(err)
		}
		return m
	}
	send := func(m *holdfastv1.ClientMessage) {
		if err := stream.Send(m); err != nil {
			c.T.Fatal(err)
		}
	}
	open := &holdfastv1.Open{Seq: 1, Timeout: durationpb.New(timeout), RequestId: request().GetRequestId()}
	send(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: open}})
	receive()
	for seq := uint64(2); seq < 42; seq++ {
		time.Sleep(timeout/3 - time.Duration(random.Int64N(int64(interval))))
		sent := time.Now()
		send(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{Seq: seq}}})
		at := receive().GetTouched()
		if answered := time.Since(sent); at.GetSeq() != seq || at.GetSafeFor() == nil || answered > 2*hop {
			c.T.Fatalf("touch %d was answered with %v after %v", seq, at, answered)
		}
		later := receive().GetTouched()
		if later.GetSeq() != seq {
			c.T.Fatalf("after the answer to touch %d came %v", seq, later)
		}
		judge("a stream", later.GetSafeFor().AsDuration(), time.Since(sent))
	}
}

// S3: a client of the SDK in a healthy cluster is always safe for at least the timeout less the time to its next touch,
// at most a third of the timeout, and until that touch is confirmed.
func TestPromisesOfTheSDK(t *testing.T) {
	whole.Run(t, func(c *whole.Cluster) {
		for timeout := range timeouts {
			cl := c.Client("sdk-" + timeout.String())
			defer cl.Close()
			s, err := cl.Open(c.T.Context(), client.SessionOptions{Timeout: timeout})
			if err != nil {
				c.T.Fatal(err)
			}
			floor, most := timeout, time.Duration(0)
			time.Sleep(timeout)
			for end := time.Now().Add(20 * timeout); time.Now().Before(end); time.Sleep(7 * time.Millisecond) {
				left := time.Until(s.SafeUntil())
				floor, most = min(floor, left), max(most, left)
			}
			if want := least(timeout) - timeout/3 - within; floor < want {
				c.T.Errorf("of %v it was safe for %v only, want %v", timeout, floor, want)
			}
			c.T.Logf("of %v it was safe for %v to %v", timeout, floor, most)
		}
	})
}
