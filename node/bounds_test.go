package node

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/node/config"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // what a client may send, in its own words
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/authz"
)

// A follower applies an open after the leader has answered it. The wait for that is at most min_timeout, and the least
// min_timeout is enough for a healthy follower. With less, it would refuse opens that were done.
func TestTheShortestCatchUpWaitIsEnoughForAFollower(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) {
			cfg.Sessions.HeartbeatInterval = 20 * time.Millisecond
			cfg.Sessions.MinTimeout = leastMinTimeout(t)
		})
		defer c.stop()
		follower := c.others(c.leader(within))[0]
		for range 20 {
			c.mustOpen(follower, within)
		}
	})
}

// leastMinTimeout is the lowest that the settings take, to the millisecond.
func leastMinTimeout(t *testing.T) time.Duration {
	t.Helper()
	c := oneOfThree(t)
	c.Sessions.HeartbeatInterval = time.Millisecond
	for c.Sessions.MinTimeout = 0; c.Sessions.MinTimeout <= time.Second; c.Sessions.MinTimeout += time.Millisecond {
		if _, err := c.Complete(); err == nil {
			return c.Sessions.MinTimeout
		}
	}
	t.Fatal("no min_timeout up to 1 s is allowed")
	return 0
}

// oneOfThree is the default configuration of a node.
func oneOfThree(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Auth.Mode = authz.None
	c.Node, c.DataDir = 1, "data"
	var err error
	if c.Peers, err = config.ParsePeers("1=n1,2=n2,3=n3"); err != nil {
		t.Fatal(err)
	}
	return c
}

// The smallest message limit that can be configured takes a touch of all sessions that one may name: on a stream, one
// that is over the limit costs the stream.
func TestTheSmallestMessageLimitTakesTheLargestTouches(t *testing.T) {
	touch := &holdfastv1.Touch{Seq: math.MaxUint64, Ids: make([]uint64, session.MaxTouchBatch)}
	unary := &holdfastv1.TouchSessionsRequest{}
	token := &holdfastv1.Token{
		SessionId: math.MaxUint64, Credential: make([]byte, 16), Attachment: math.MaxUint64,
		Local: true,
	}
	for range session.MaxTouchBatch {
		unary.Tokens = append(unary.Tokens, token)
	}
	for _, m := range []proto.Message{touch, unary} {
		c := oneOfThree(t)
		c.Clients.MaxMessageBytes = proto.Size(m) - 1
		if _, err := c.Complete(); err == nil {
			t.Errorf("%d bytes are enough for the settings, and not for the largest %s", c.Clients.MaxMessageBytes,
				m.ProtoReflect().Descriptor().Name())
		}
	}
}
