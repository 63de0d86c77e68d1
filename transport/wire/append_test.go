package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// anyGrant returns a grant with fields of any size, none of them always set.
func anyGrant(random *rand.Rand) *session.Grant {
	maybe := func(v uint64) uint64 { return v >> random.IntN(64) * uint64(random.IntN(2)) }
	g := &session.Grant{
		Session: session.Session{
			ID:    session.ID(maybe(random.Uint64())),
			Spec:  session.Spec{Timeout: time.Duration(maybe(random.Uint64()) >> 1)},
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

// anyCertificate returns a certificate with fields of any size, some from a grant.
func anyCertificate(random *rand.Rand, g *session.Grant) session.Certificate {
	return session.Certificate{
		ID: session.ID(random.Uint64() | 1), Cause: session.Cause(random.IntN(4)), LastTouchAge: g.SafeFor,
		Owner: g.Session.Owner, Term: g.Session.Attachment, Index: g.Session.OpenedIndex,
		Credited: max(g.Session.Timeout, 0), EndedAt: g.Session.OpenedAt,
		Left: session.Left{
			Applied: g.Applied, Floor: g.Floor, Instance: g.Session.Attachment, Ephemerals: random.Uint64N(300),
			Will: tree.WillFate(random.IntN(4)),
		},
		Story: anyStory(random, g),
	}
}

// anyStory returns a story with fields of any size, or none.
func anyStory(random *rand.Rand, g *session.Grant) session.Story {
	if random.IntN(3) == 0 {
		return session.Story{}
	}
	return session.Story{
		Spec: session.Spec{Timeout: max(g.Session.Timeout, 0), Labels: g.Session.Labels}, OpenedAt: g.Session.OpenedAt,
		Late: time.Duration(random.Int64()) >> random.IntN(63), Credit: max(g.SafeFor, 0),
		Silent: time.Duration(random.IntN(3)), By: strings.Repeat("o", random.IntN(3)),
		Why: strings.Repeat("ä", random.IntN(120)),
	}
}

func appendedGone(all []session.Certificate) []byte {
	var ids, certificates []byte
	for i := range all {
		ids = binary.LittleEndian.AppendUint64(ids, uint64(all[i].ID))
		certificates = AppendCertificate(certificates, &all[i])
	}
	return AppendGone(nil, all[0].Cause, ids, certificates)
}

func goneProto(all []session.Certificate) *holdfastv1.Gone {
	m := &holdfastv1.Gone{Cause: causeProto(all[0].Cause)}
	for _, c := range all {
		if c.Story.Labels = nil; c.Cause != session.CauseKilled {
			c.Story = session.Story{}
		}
		m.Ids, m.Certificate = append(m.Ids, uint64(c.ID)), append(m.Certificate, CertificateProto(c))
	}
	return m
}

// An appended answer is what marshalling its message gives, whatever its fields hold.
func TestAppendedAnswersAreTheirMessages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		g, seq := anyGrant(random), random.Uint64()>>random.IntN(64)
		g.Floor = random.Uint64() >> random.IntN(64)
		g.Applied = g.Floor + random.Uint64N(3)
		s, token, safe := SessionProto(g.Session), TokenProto(g.Token), PromiseProto(g.SafeFor)
		state := session.NodeState{
			Node: session.Node(random.IntN(256)), Mode: session.Mode(random.IntN(4)),
			Index: random.Uint64() >> random.IntN(64),
		}
		all := []session.Certificate{anyCertificate(random, g), anyCertificate(random, g), {ID: 1}}
		for name, tt := range map[string]struct {
			bytes []byte
			want  *holdfastv1.ServerMessage
		}{
			"opened": {AppendOpened(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Opened{
				Opened: &holdfastv1.Opened{Seq: seq, Session: s, Token: token, SafeFor: safe},
			}}},
			"resumed": {AppendResumed(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{
				Resumed: &holdfastv1.Resumed{
					Seq: seq, Session: s, Token: token, SafeFor: safe, Applied: g.Applied, Floor: g.Floor,
				},
			}}},
			"upgraded": {
				AppendUpgraded(nil, seq, g), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Upgraded{
					Upgraded: &holdfastv1.Upgraded{Seq: seq, Session: s, Token: token, SafeFor: safe},
				}},
			},
			"touched": {
				AppendTouched(nil, seq, g.SafeFor, g.Floor), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{
					Touched: &holdfastv1.Touched{Seq: seq, SafeFor: safe, Delivered: g.Floor},
				}},
			},
			"closed": {AppendClosed(nil, seq), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Closed{
				Closed: &holdfastv1.Closed{Seq: seq},
			}}},
			"gone": {appendedGone(all), &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{
				Gone: goneProto(all),
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
