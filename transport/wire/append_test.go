package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// anyGrant returns a grant with fields of any size, none of them always set.
func anyGrant(random *rand.Rand) *session.Grant {
	maybe := func(v uint64) uint64 { return v >> random.IntN(64) * uint64(random.IntN(2)) }
	g := &session.Grant{
		Session: session.Session{
			ID: session.ID(maybe(random.Uint64())), Timeout: time.Duration(maybe(random.Uint64()) >> 1),
			Owner: session.Node(random.IntN(256)), Attachment: maybe(random.Uint64()),
			OpenedIndex: maybe(random.Uint64()), Local: random.IntN(2) == 0,
		},
		Token: session.Token{
			ID: session.ID(maybe(random.Uint64())), Attachment: maybe(random.Uint64()), Local: random.IntN(2) == 0,
		},
		SafeFor: time.Duration(random.Int64()) >> random.IntN(63),
	}
	if random.IntN(2) == 0 {
		g.SafeFor = Unknown
	}
	if random.IntN(2) == 0 {
		g.Session.OpenedAt = session.TimeOfMS(random.Uint64() >> 24)
	}
	for i := range g.Token.Credential {
		g.Token.Credential[i] = byte(random.Uint32())
	}
	for i := range random.IntN(4) {
		g.Session.Labels = append(g.Session.Labels, session.Label{
			Key: string(rune('a' + i)), Value: strings.Repeat("ä", random.IntN(120)),
		})
	}
	return g
}

// An appended answer is what marshalling its message gives, whatever its fields hold.
func TestAppendedAnswersAreTheirMessages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		g, seq := anyGrant(random), random.Uint64()>>random.IntN(64)
		s, token, safe := SessionProto(g.Session), TokenProto(g.Token), PromiseProto(g.SafeFor)
		state := session.NodeState{
			Node: session.Node(random.IntN(256)), Mode: session.Mode(random.IntN(4)),
			Index: random.Uint64() >> random.IntN(64),
		}
		for name, tt := range map[string]struct {
			bytes []byte
			want  *holdfastv1.ServerMessage
		}{
			"opened": {AppendOpened(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{
				Opened: &holdfastv1.Opened{Seq: seq, Session: s, Token: token, SafeFor: safe},
			}}},
			"resumed": {AppendResumed(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{
				Resumed: &holdfastv1.Resumed{Seq: seq, Session: s, Token: token, SafeFor: safe},
			}}},
			"upgraded": {
				AppendUpgraded(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{
					Upgraded: &holdfastv1.Upgraded{Seq: seq, Session: s, Token: token, SafeFor: safe},
				}},
			},
			"touched": {
				AppendTouched(nil, seq, g.SafeFor), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{
					Touched: &holdfastv1.Touched{Seq: seq, SafeFor: safe},
				}},
			},
			"closed": {AppendClosed(nil, seq), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{
				Closed: &holdfastv1.Closed{Seq: seq},
			}}},
			"state": {AppendState(nil, state), &holdfastv1.ServerMessage{State: StateProto(state)}},
		} {
			got := &holdfastv1.ServerMessage{}
			if err := proto.Unmarshal(tt.bytes, got); err != nil || !proto.Equal(got, tt.want) {
				t.Fatalf("%s: %v, got %v, want %v", name, err, got, tt.want)
			}
			if size := proto.Size(tt.want); size != len(tt.bytes) {
				t.Fatalf("%s takes %d bytes, want %d", name, len(tt.bytes), size)
			}
		}
	}
}
