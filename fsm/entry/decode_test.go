package entry

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// framed returns the payload of an entry with the message m, whatever m is.
func framed(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	message, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return Join([][]byte{message}, Clocks{})
}

// with returns an entry of a good command and the message of c after change.
func with(tb testing.TB, c session.Command, change func(*logv1.Command)) []byte {
	tb.Helper()
	m := commandProto(c)
	change(m)
	return framed(tb, &logv1.Entry{Commands: []*logv1.Command{commandProto(opening(1)), m}})
}

func unknownField() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
}

func TestDecodeRefuses(t *testing.T) {
	good, err := Encode([]session.Command{opening(1)})
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(good)
	flipped[len(flipped)-1] ^= 1
	newer, none := slices.Clone(good), slices.Clone(good)
	newer[0], none[0] = 2, 0
	notMessage := []byte{format, 0, 0, 0, 0, 0xff}
	binary.LittleEndian.PutUint32(notMessage[1:], codec.Checksum(notMessage[FrameSize:]))
	all := everyCommand()
	open := func(change func(*logv1.OpenSession)) []byte {
		return with(t, all["open_session"], func(m *logv1.Command) { change(m.GetOpenSession()) })
	}
	move := func(change func(*logv1.MoveSession)) []byte {
		return with(t, all["move_session"], func(m *logv1.Command) { change(m.GetMoveSession()) })
	}
	end := func(change func(*logv1.CloseSessions)) []byte {
		return with(t, all["close_sessions"], func(m *logv1.Command) { change(m.GetCloseSessions()) })
	}
	upgrade := func(change func(*logv1.UpgradeSession)) []byte {
		return with(t, all["upgrade_session"], func(m *logv1.Command) { change(m.GetUpgradeSession()) })
	}
	claim := func(change func(*logv1.ClaimIDs)) []byte {
		return with(t, all["claim_ids"], func(m *logv1.Command) { change(m.GetClaimIds()) })
	}
	capacity := func(change func(*logv1.SetCapacity)) []byte {
		return with(t, all["set_capacity"], func(m *logv1.Command) { change(m.GetSetCapacity()) })
	}
	unknownIn := func(name string, in func(*logv1.Command) proto.Message) []byte {
		return with(t, all[name], func(m *logv1.Command) { in(m).ProtoReflect().SetUnknown(unknownField()) })
	}
	entryUnknown := &logv1.Entry{Commands: []*logv1.Command{commandProto(opening(1))}}
	entryUnknown.ProtoReflect().SetUnknown(unknownField())

	tests := []struct {
		name string
		data []byte
		want string // in the error
	}{
		{"nothing", nil, "shorter than its frame"},
		{"half a frame", good[:4], "shorter than its frame"},
		{"another format", newer, "the entry has format 2, and this program reads format 1"},
		{"no format", none, "entry format 0: there is no such format"},
		{"flipped bit", flipped, "checksum"},
		{"cut short", good[:len(good)-1], "checksum"},
		{"no message", notMessage, "entry message"},
		{"no commands", framed(t, &logv1.Entry{}), "no commands"},
		{"unknown field of entry", framed(t, entryUnknown), "entry: field 99 is unknown"},
		{"empty command", with(t, opening(2), func(m *logv1.Command) { m.Command = nil }), "command 1 of 2: empty"},
		{"unknown command", with(t, opening(2), func(m *logv1.Command) {
			m.Command = nil
			m.ProtoReflect().SetUnknown(unknownField())
		}), "command 1 of 2: field 99 is unknown"},
		{"wall clock", framed(t, &logv1.Entry{
			Commands: []*logv1.Command{commandProto(opening(1))}, WallMs: 1 << 43,
		}), "wall_ms must be below 2^43"},
		{"log clock", framed(t, &logv1.Entry{ClockMs: 1 << 43}), "clock_ms must be below 2^43"},
		{"write", with(t, opening(2), func(m *logv1.Command) {
			m.Command = &logv1.Command_Write{Write: &logv1.Write{Session: 1}}
		}), "command 1 of 2: write: attachment"},
		{"no limits", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().Limits = nil
		}), "configure: limits"},
		{"no level", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().Level = 0
		}), "configure: level"},
		{"level of a later release", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().Level = 2
		}), "configure: the cluster has feature level 2"},
		{"node 0", open(func(m *logv1.OpenSession) { m.Node = 0 }), "command 1 of 2: open_session: node"},
		{"node 255", open(func(m *logv1.OpenSession) { m.Node = 255 }), "open_session: node"},
		{"node 257", open(func(m *logv1.OpenSession) { m.Node = 257 }), "open_session: node"},
		{"ms above 40 bits", open(func(m *logv1.OpenSession) { m.Ms = session.MaxMS + 1 }), "open_session: ms"},
		{"no timeout", open(func(m *logv1.OpenSession) { m.TimeoutMs = 0 }), "open_session: timeout"},
		{"timeout above a day", open(func(m *logv1.OpenSession) { m.TimeoutMs = 86_400_001 }), "open_session: timeout"},
		{
			"short request id", open(func(m *logv1.OpenSession) { m.RequestId = m.RequestId[:15] }),
			"open_session: request_id",
		},
		{
			"long request id", open(func(m *logv1.OpenSession) { m.RequestId = append(m.RequestId, 1) }),
			"open_session: request_id",
		},
		{
			"request id of zeros", open(func(m *logv1.OpenSession) { m.RequestId = make([]byte, 16) }),
			"open_session: request_id",
		},
		{"unsorted labels", open(func(m *logv1.OpenSession) { slices.Reverse(m.Labels) }), "open_session: labels"},
		{"label twice", open(func(m *logv1.OpenSession) { m.Labels[1] = m.Labels[0] }), "open_session: labels"},
		{
			"long label", open(func(m *logv1.OpenSession) { m.Labels[0].Value = strings.Repeat("v", 257) }),
			"open_session: labels",
		},
		{"no session to move", move(func(m *logv1.MoveSession) { m.Id = 0 }), "move_session: session_id"},
		{"owner 0", move(func(m *logv1.MoveSession) { m.Owner = 0 }), "move_session: owner"},
		{"owner 256", move(func(m *logv1.MoveSession) { m.Owner = 256 }), "move_session: owner"},
		{"attempt 0", move(func(m *logv1.MoveSession) { m.Attempt = 0 }), "move_session: attempt"},
		{"no attachment named", move(func(m *logv1.MoveSession) { m.Named = 0 }), "move_session: named"},
		{"no cause", end(func(m *logv1.CloseSessions) { m.Cause = 0 }), "close_sessions: cause"},
		{"unknown cause", end(func(m *logv1.CloseSessions) { m.Cause = 4 }), "close_sessions: cause"},
		{"cause 257", end(func(m *logv1.CloseSessions) { m.Cause = 257 }), "close_sessions: cause"},
		{"closes nothing", end(func(m *logv1.CloseSessions) { m.Sessions = nil }), "close_sessions: sessions"},
		{"closes session 0", end(func(m *logv1.CloseSessions) { m.Sessions[1].Id = 0 }), "close_sessions: session_id"},
		{"1,025 closings", end(func(m *logv1.CloseSessions) {
			m.Sessions = slices.Repeat(m.Sessions[:1], session.MaxCloseBatch+1)
		}), "close_sessions: sessions"},
		{"short key", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().ClusterKey = make([]byte, 31)
		}), "configure: cluster_key"},
		{"long key", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().ClusterKey = append(m.GetConfigure().ClusterKey, 1)
		}), "configure: cluster_key"},
		{"key of zeros", with(t, all["configure"], func(m *logv1.Command) {
			m.GetConfigure().ClusterKey = make([]byte, 32)
		}), "configure: cluster_key"},
		{"unknown in open", unknownIn("open_session", func(m *logv1.Command) proto.Message {
			return m.GetOpenSession()
		}), "open_session: field 99"},
		{"unknown in label", unknownIn("open_session", func(m *logv1.Command) proto.Message {
			return m.GetOpenSession().Labels[1]
		}), "label 1: field 99"},
		{"unknown in move", unknownIn("move_session", func(m *logv1.Command) proto.Message {
			return m.GetMoveSession()
		}), "move_session: field 99"},
		{"unknown in close", unknownIn("close_sessions", func(m *logv1.Command) proto.Message {
			return m.GetCloseSessions()
		}), "close_sessions: field 99"},
		{"unknown in closing", unknownIn("close_sessions", func(m *logv1.Command) proto.Message {
			return m.GetCloseSessions().Sessions[2]
		}), "session 2: field 99"},
		{"unknown in forget", unknownIn("forget_requests", func(m *logv1.Command) proto.Message {
			return m.GetForgetRequests()
		}), "forget_requests: field 99"},
		{"claim of node 0", claim(func(m *logv1.ClaimIDs) { m.Node = 0 }), "claim_ids: node"},
		{"claim of node 255", claim(func(m *logv1.ClaimIDs) { m.Node = 255 }), "claim_ids: node"},
		{"claim above 40 bits", claim(func(m *logv1.ClaimIDs) { m.Ms = session.MaxMS + 1 }), "claim_ids: ms"},
		{"claims nothing", claim(func(m *logv1.ClaimIDs) { m.Count = 0 }), "claim_ids: count"},
		{"claims too much", claim(func(m *logv1.ClaimIDs) { m.Count = session.MaxClaim + 1 }), "claim_ids: count"},
		{
			"upgrade of nobody's session", upgrade(func(m *logv1.UpgradeSession) { m.Id = 1 }),
			"upgrade_session: session_id",
		},
		{
			"upgrade of node 255", upgrade(func(m *logv1.UpgradeSession) { m.Id = 255 << 56 }),
			"upgrade_session: session_id",
		},
		{
			"upgrade without a timeout", upgrade(func(m *logv1.UpgradeSession) { m.TimeoutMs = 0 }),
			"upgrade_session: timeout",
		},
		{
			"upgrade above 40 bits", upgrade(func(m *logv1.UpgradeSession) { m.Ms = session.MaxMS + 1 }),
			"upgrade_session: ms",
		},
		{
			"upgrade with a label of no key", upgrade(func(m *logv1.UpgradeSession) { m.Labels[0].Key = "" }),
			"upgrade_session: labels",
		},
		{"unknown in upgrade", unknownIn("upgrade_session", func(m *logv1.Command) proto.Message {
			return m.GetUpgradeSession()
		}), "upgrade_session: field 99"},
		{
			"capacity of nothing", capacity(func(m *logv1.SetCapacity) { m.MaxSessions = 0 }),
			"set_capacity: max_sessions",
		},
		{"capacity of too many", capacity(func(m *logv1.SetCapacity) {
			m.MaxSessions++
			m.MaxSessions += session.MaxCapacitySessions
		}), "set_capacity: max_sessions"},
		{"capacity of few bytes", capacity(func(m *logv1.SetCapacity) {
			m.MaxStateBytes = session.MinCapacityBytes - 1
		}), "set_capacity: max_state_bytes"},
		{"capacity of too much", capacity(func(m *logv1.SetCapacity) {
			m.MaxStateBytes = session.MaxCapacityBytes + 1
		}), "set_capacity: max_state_bytes"},
		{"unknown in capacity", unknownIn("set_capacity", func(m *logv1.Command) proto.Message {
			return m.GetSetCapacity()
		}), "set_capacity: field 99"},
		{
			"unknown in claim", unknownIn("claim_ids", func(m *logv1.Command) proto.Message { return m.GetClaimIds() }),
			"claim_ids: field 99",
		},
		{"unknown in configure", unknownIn("configure", func(m *logv1.Command) proto.Message {
			return m.GetConfigure()
		}), "configure: field 99"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			commands, err := Decode(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Decode = %v, %v, want an error with %q", commands, err, test.want)
			}
		})
	}
}

// Columns of different lengths have no meaning: no node applies such an entry.
func TestMovesOfUnevenColumnsAreRefused(t *testing.T) {
	whole := session.MoveSessions{NewOwner: 1, Instance: 2, Sessions: []session.Moving{
		{ID: 1, Attempt: 1, Named: 1}, {ID: 2, Attempt: 1, Named: 2},
	}}
	for field, spoil := range map[string]func(*logv1.MoveSessions){
		"attempts":   func(m *logv1.MoveSessions) { m.Attempts = m.Attempts[:1] },
		"named":      func(m *logv1.MoveSessions) { m.Named = append(m.Named, 3) },
		"session_id": func(m *logv1.MoveSessions) { m.Ids[1] = 0 },
		"sessions":   func(m *logv1.MoveSessions) { m.Ids, m.Attempts, m.Named = nil, nil, nil },
		"owner":      func(m *logv1.MoveSessions) { m.Owner = 300 },
	} {
		m := commandProto(whole)
		spoil(m.GetMoveSessions())
		_, err := commandFrom(m)
		if told, ok := errors.AsType[*session.FieldError](err); !ok || told.Field != field {
			t.Errorf("%s: %v, want a FieldError of it", field, err)
		}
	}
}
