package entry

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
)

// everyCommand returns samples of every command, by the names of their golden files. Together the samples of a command
// set all its fields.
func everyCommand() map[string]session.Command {
	return map[string]session.Command{
		"open_session": session.OpenSession{
			Node: 3, MS: 20_736_000_123,
			Spec:      session.Spec{Timeout: 12_345 * time.Millisecond, Labels: session.Labels{{Key: "app", Value: "billing"}, {Key: "zone", Value: ""}}},
			RequestID: session.RequestID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		},
		"open_session_bare": session.OpenSession{
			Node: 254, Spec: session.Spec{Timeout: time.Millisecond}, RequestID: session.RequestID{15: 1},
		},
		"open_session_instance": session.OpenSession{
			Node: 3, Spec: session.Spec{Timeout: time.Millisecond}, RequestID: session.RequestID{15: 1},
			Instance: 0xfedcba9876543210,
		},
		"move_session": session.MoveSession{
			ID: 0x0304d3f642_7b0001, NewOwner: 2, Instance: 0xfedcba9876543210, Attempt: 300, Named: 1 << 40,
		},
		"move_session_named_locally": session.MoveSession{
			ID: 0x0304d3f642_7b0001, NewOwner: 2, Instance: 0xfedcba9876543210, Attempt: 300, Named: 7,
			NamedLocal: true,
		},
		"move_sessions": session.MoveSessions{
			NewOwner: 2, Instance: 0xfedcba9876543210, Sessions: []session.Moving{
				{ID: 0x0304d3f642_7b0001, Attempt: 300, Named: 1 << 40},
				{ID: 0x0304d3f642_7b0002, Attempt: 1, Named: 1},
				{ID: 1<<56 | 7, Attempt: 128, Named: 127},
			},
		},
		"close_sessions": session.CloseSessions{
			Term: 7, Cause: session.CauseExpired, Credited: 1500 * time.Millisecond, MS: 20_736_012_345,
			Sessions: []session.Closing{
				{ID: 0x0304d3f642_7b0001, Attachment: 9, LastTouchAge: 12_400 * time.Millisecond},
				{ID: 0x0304d3f642_7b0002, Attachment: 400, LastTouchAge: -time.Millisecond},
				{ID: 0x0304d3f642_7b0003, Attachment: 0, LastTouchAge: 0},
			},
		},
		"close_sessions_wish": session.CloseSessions{
			Term: 1, Cause: session.CauseClosed,
			Sessions: []session.Closing{{ID: 1, Attachment: 1, LastTouchAge: -time.Millisecond}},
		},
		"close_sessions_told": session.CloseSessions{
			Term: 7, Cause: session.CauseExpired, Credited: 1500 * time.Millisecond, MS: 20_736_012_345,
			Sessions: []session.Closing{
				{
					ID: 0x0304d3f642_7b0001, Attachment: 9, LastTouchAge: 12_400 * time.Millisecond,
					Late: 251 * time.Millisecond, Credit: 1600 * time.Millisecond, Silent: 12 * time.Second,
				},
				{ID: 0x0304d3f642_7b0002, Attachment: 400, LastTouchAge: -time.Millisecond, Late: 300 * time.Millisecond},
			},
		},
		"close_sessions_killed": session.CloseSessions{
			Term: 7, Cause: session.CauseKilled, MS: 20_736_012_345, By: "CN=ops", Why: "stuck since the deploy",
			Sessions: []session.Closing{{ID: 0x0304d3f642_7b0001, Attachment: 9, LastTouchAge: time.Second}},
		},
		"freeze_expiry": session.FreezeExpiry{
			For: time.Hour, MS: 20_736_012_345, By: "CN=ops", Why: "network work",
		},
		"thaw_expiry":     session.ThawExpiry{},
		"extend_session":  session.ExtendSession{ID: 0x0304d3f642_7b0001, For: 10 * time.Minute},
		"forget_requests": session.ForgetRequests{UpToIndex: 1 << 40},
		"configure":       begins(session.Configure{Key: session.Key{0: 1, 31: 32}, Nonce: 0x0123456789abcdef}),
		"configure_bare":  begins(session.Configure{Nonce: 1}),
		"configure_quotas": begins(session.Configure{Nonce: 1, Limits: tree.Limits{
			Ephemerals: 1000, Children: 2000, Bytes: 1 << 30, OpenQuotas: true,
		}}),
		"set_capacity": session.SetCapacity{Capacity: session.Capacity{MaxSessions: 2_000_000, MaxBytes: 2 << 30}},
		"claim_ids":    session.ClaimIDs{Node: 3, MS: 20_736_000_123, Count: session.MaxClaim},
		"upgrade_session": session.UpgradeSession{
			ID:   0x0304d3f642_7b0001,
			Spec: session.Spec{Timeout: 12_345 * time.Millisecond, Labels: session.Labels{{Key: "app", Value: "billing"}}}, MS: 20_736_000_123,
			Instance: 0xfedcba9876543210, Attempt: 300, Since: 1 << 40,
		},
		"upgrade_session_bare": session.UpgradeSession{ID: 1 << 56, Spec: session.Spec{Timeout: time.Millisecond}},
	}
}

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// golden compares got with a file of testdata, and returns what the file holds.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the bytes on disk have changed, and must never change\n got %q\nwant %q", name, got, want)
	}
	return want
}

func TestGoldenEntries(t *testing.T) {
	for name, c := range everyCommand() {
		t.Run(name, func(t *testing.T) {
			got, err := Encode([]session.Command{c})
			if err != nil {
				t.Fatal(err)
			}
			file := golden(t, name+".hex", []byte(hex.EncodeToString(got)+"\n"))
			old, err := hex.DecodeString(strings.TrimSpace(string(file)))
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := Decode(old)
			if want := []session.Command{c}; err != nil || !reflect.DeepEqual(decoded.Commands, want) {
				t.Errorf("Decode = %+v, %v\nwant %+v", decoded, err, want)
			}
		})
	}
}

// notInTheLog are the fields of commands that the log does not have.
var notInTheLog = []string{"CloseSessions.Weight"}

// The samples of each command set all its fields, so the golden bytes have all of them, and TestGoldenEntries fails for
// a field that entries leave out. The test names the field that has no sample.
func TestSamplesSetEveryField(t *testing.T) {
	set := map[string]bool{} // by the field's name: whether a sample sets it
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			set[name] = set[name] || v.Len() > 0
			for i := range v.Len() {
				walk(name, v.Index(i))
			}
		default:
			set[name] = set[name] || !v.IsZero()
		}
	}
	messages := map[protoreflect.Name]bool{}
	for _, c := range everyCommand() {
		walk(reflect.TypeOf(c).Name(), reflect.ValueOf(c))
		m := commandProto(c).ProtoReflect()
		messages[m.WhichOneof(m.Descriptor().Oneofs().Get(0)).Name()] = true
	}
	for name, ok := range set {
		if !ok && !slices.Contains(notInTheLog, name) {
			t.Errorf("%s: no sample in everyCommand sets it", name)
		}
	}
	all := (&logv1.Command{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for i := range all.Len() {
		switch name := all.Get(i).Name(); name {
		case "write", "void", "acknowledge", "reap": // package tree/form has samples of them
		default:
			if !messages[name] {
				t.Errorf("%s: everyCommand has no sample of this command", name)
			}
		}
	}
}

func TestEntryKeepsOrder(t *testing.T) {
	want := []session.Command{
		session.ForgetRequests{UpToIndex: 2},
		opening(1),
		session.ForgetRequests{UpToIndex: 1},
		opening(2),
	}
	data, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(data); err != nil || !reflect.DeepEqual(got.Commands, want) {
		t.Errorf("Decode = %+v, %v, want %+v", got, err, want)
	}
}

// No command is larger than [session.EntryBytes], the bound of entries on the network (raftnet.MaxField): an entry
// carries at least one command, whatever its size.
func TestTheLargestCommandFitsAnEntry(t *testing.T) {
	var labels session.Labels
	for i := range session.MaxLabels {
		labels = append(
			labels, session.Label{
				Key: fmt.Sprintf("%0*d", session.MaxLabelKey, i), Value: strings.Repeat("v", session.MaxLabelValue),
			},
		)
	}
	closing := session.CloseSessions{
		Term: math.MaxUint64, Cause: session.CauseExpired, Credited: math.MaxInt64,
		MS: session.MaxMS,
	}
	for range session.MaxCloseBatch {
		closing.Sessions = append(closing.Sessions,
			session.Closing{ID: math.MaxInt64, Attachment: math.MaxUint64, LastTouchAge: math.MaxInt64})
	}
	moving := session.MoveSessions{NewOwner: session.MaxNode, Instance: math.MaxUint64}
	for range session.MaxBatch {
		moving.Sessions = append(moving.Sessions, session.Moving{
			ID: math.MaxInt64, Attempt: math.MaxUint64, Named: math.MaxUint64,
		})
	}
	for _, c := range []session.Command{
		session.OpenSession{
			Node: session.MaxNode, MS: session.MaxMS, Spec: session.Spec{Timeout: session.MaxTimeout, Labels: labels},
			RequestID: session.RequestID{1},
		},
		session.UpgradeSession{
			ID: 1 << 56, MS: session.MaxMS, Spec: session.Spec{Timeout: session.MaxTimeout, Labels: labels},
			Instance: math.MaxUint64, Attempt: math.MaxUint64, Since: math.MaxUint64,
		},
		closing,
		moving,
	} {
		if data, err := Encode([]session.Command{c}); err != nil || len(data) > session.EntryBytes {
			t.Errorf("an entry with one %T takes %d bytes, want at most %d (%v)", c, len(data), session.EntryBytes, err)
		} else {
			t.Logf("%T: %d bytes", c, len(data))
		}
		quick, err := EncodeCommand(c)
		generated, generatedErr := encodeGenerated(c)
		if err != nil || generatedErr != nil || !slices.Equal(quick, generated) {
			t.Errorf("%T has other bytes than the generated message: %v, %v", c, err, generatedErr)
		}
	}
}

// frame builds the message by hand, and it must have the form of the schema.
func TestEntryIsTheSchemasMessage(t *testing.T) {
	data, err := Encode([]session.Command{opening(1), begins(session.Configure{Nonce: 5})})
	if err != nil {
		t.Fatal(err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(&logv1.Entry{Commands: []*logv1.Command{
		commandProto(opening(1)), commandProto(begins(session.Configure{Nonce: 5})),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := data[FrameSize:]; !slices.Equal(got, want) {
		t.Errorf("message is %x, want %x", got, want)
	}
}

// drawCommand draws a command whose fields are in range.
func drawCommand(t *rapid.T) session.Command {
	node := rapid.Custom(func(t *rapid.T) session.Node { return session.Node(rapid.IntRange(1, 254).Draw(t, "node")) })
	ms := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(
			rapid.Int64Range(1, session.MaxTimeout.Milliseconds()).Draw(t, "duration"),
		) * time.Millisecond
	})
	id := rapid.Custom(func(t *rapid.T) session.ID { return session.ID(rapid.Uint64Min(1).Draw(t, "id")) })
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		labels, err := session.NewLabels(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,9}`), rapid.StringN(-1, -1, 64),
			0, 9).Draw(t, "labels"))
		if err != nil {
			t.Fatal(err)
		}
		return session.OpenSession{
			Node: node.Draw(t, "node"), MS: rapid.Uint64Max(session.MaxMS).Draw(t, "ms"),
			Spec:      session.Spec{Timeout: ms.Draw(t, "timeout"), Labels: labels},
			RequestID: session.RequestID{0: rapid.Byte().Draw(t, "request"), 15: 1},
		}
	case 1:
		return session.MoveSession{
			ID: id.Draw(t, "id"), NewOwner: node.Draw(t, "owner"), Instance: rapid.Uint64().Draw(t, "instance"),
			Attempt: rapid.Uint64Min(1).Draw(t, "attempt"), Named: rapid.Uint64Min(1).Draw(t, "named"),
			NamedLocal: rapid.Bool().Draw(t, "local"),
		}
	case 2:
		closing := rapid.Custom(func(t *rapid.T) session.Closing {
			return session.Closing{
				ID: id.Draw(t, "id"), Attachment: rapid.Uint64().Draw(t, "attachment"),
				LastTouchAge: rapid.SampledFrom([]time.Duration{-time.Millisecond, 0, time.Hour}).Draw(t, "age"),
			}
		})
		return session.CloseSessions{
			Term:     rapid.Uint64().Draw(t, "term"),
			Cause:    rapid.SampledFrom([]session.Cause{session.CauseClosed, session.CauseExpired}).Draw(t, "cause"),
			Credited: ms.Draw(t, "credited"), MS: rapid.Uint64().Draw(t, "ms"),
			Sessions: rapid.SliceOfN(closing, 1, 9).Draw(t, "sessions"),
		}
	case 7:
		moving := rapid.Custom(func(t *rapid.T) session.Moving {
			return session.Moving{
				ID: id.Draw(t, "id"), Attempt: rapid.Uint64Min(1).Draw(t, "attempt"),
				Named: rapid.Uint64Min(1).Draw(t, "named"),
			}
		})
		return session.MoveSessions{
			NewOwner: node.Draw(t, "owner"), Instance: rapid.Uint64().Draw(t, "instance"),
			Sessions: rapid.SliceOfN(moving, 1, 9).Draw(t, "sessions"),
		}
	case 3:
		return session.ForgetRequests{UpToIndex: rapid.Uint64().Draw(t, "index")}
	case 5:
		return session.UpgradeSession{
			ID:   session.ID(node.Draw(t, "node"))<<56 | session.ID(rapid.Uint64Max(1<<56-1).Draw(t, "rest")),
			Spec: session.Spec{Timeout: ms.Draw(t, "timeout")},
			MS:   rapid.Uint64Max(session.MaxMS).Draw(t, "ms"), Instance: rapid.Uint64().Draw(t, "instance"),
			Attempt: rapid.Uint64().Draw(t, "attempt"), Since: rapid.Uint64().Draw(t, "since"),
		}
	case 6:
		return session.SetCapacity{Capacity: session.Capacity{
			MaxSessions: rapid.Uint64Range(1, session.MaxCapacitySessions).Draw(t, "sessions"),
			MaxBytes:    rapid.Uint64Range(session.MinCapacityBytes, session.MaxCapacityBytes).Draw(t, "bytes"),
		}}
	case 4:
		return session.ClaimIDs{
			Node: node.Draw(t, "node"), MS: rapid.Uint64Max(session.MaxMS).Draw(t, "ms"),
			Count: rapid.Uint32Range(1, session.MaxClaim).Draw(t, "count"),
		}
	default:
		return begins(session.Configure{Key: session.Key{rapid.Byte().Draw(t, "key")}, Nonce: rapid.Uint64().Draw(t, "nonce")})
	}
}

func TestEveryEntryDecodesToWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawCommand), 1, 20).Draw(t, "commands")
		data, err := Encode(want)
		if err != nil {
			t.Fatalf("EncodeEntry: %v", err)
		}
		if again, err := Encode(want); err != nil || !slices.Equal(data, again) {
			t.Fatalf("the same commands gave %x, then %x, %v", data, again, err)
		}
		if got, err := Decode(data); err != nil || !reflect.DeepEqual(got.Commands, want) {
			t.Fatalf("Decode = %+v, %v\nwant %+v", got, err, want)
		}
	})
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	open := func(change func(*session.OpenSession)) session.Command {
		c := opening(1)
		change(&c)
		return c
	}
	tests := map[string]session.Command{
		"node":            open(func(c *session.OpenSession) { c.Node = 255 }),
		"ms":              open(func(c *session.OpenSession) { c.MS = session.MaxMS + 1 }),
		"timeout":         open(func(c *session.OpenSession) { c.Timeout = 1500 * time.Microsecond }),
		"request_id":      open(func(c *session.OpenSession) { c.RequestID = session.RequestID{} }),
		"labels":          open(func(c *session.OpenSession) { c.Labels = session.Labels{{Key: "b"}, {Key: "a"}} }),
		"max_sessions":    session.SetCapacity{Capacity: session.Capacity{MaxBytes: session.MinCapacityBytes}},
		"max_state_bytes": session.SetCapacity{Capacity: session.Capacity{MaxSessions: 1, MaxBytes: 1}},
		"count":           session.ClaimIDs{Node: 1, Count: session.MaxClaim + 1},
		"owner":           session.MoveSession{ID: 1, Attempt: 1, Named: 1},
		"attempt":         session.MoveSession{ID: 1, NewOwner: 1, Named: 1},
		"named":           session.MoveSession{ID: 1, NewOwner: 1, Attempt: 1},
		"session_id":      session.MoveSession{NewOwner: 1, Attempt: 1, Named: 1},
		"sessions": session.CloseSessions{
			Cause: session.CauseClosed, Sessions: make([]session.Closing, session.MaxCloseBatch+1),
		},
		"level": session.Configure{Limits: tree.DefaultLimits()},
		"cause": session.CloseSessions{Cause: 9, Sessions: []session.Closing{{ID: 1}}},
		"credited": session.CloseSessions{
			Cause: session.CauseClosed, Credited: -1, Sessions: []session.Closing{{ID: 1}},
		},
	}
	for field, c := range tests {
		t.Run(field, func(t *testing.T) {
			_, err := Encode([]session.Command{c})
			var got *session.FieldError
			if !errors.As(err, &got) || got.Field != field {
				t.Errorf("EncodeEntry = %v, want a FieldError of %s", err, field)
			}
		})
	}
	if _, err := Encode(nil); !errors.Is(err, errEmpty) {
		t.Errorf("EncodeEntry of nothing = %v, want %v", err, errEmpty)
	}
	if _, err := Encode([]session.Command{nil}); err == nil {
		t.Error("EncodeEntry took a command of no type")
	}
}

func TestAgeInTheLog(t *testing.T) {
	tests := []struct{ age, want time.Duration }{
		{-time.Hour, -time.Millisecond},
		{0, 0},
		{1_999 * time.Microsecond, time.Millisecond},
		{1 << 62, (1<<32 - 2) * time.Millisecond},
	}
	for _, test := range tests {
		if got := codec.AgeOf(codec.AgeMS(test.age)); got != test.want {
			t.Errorf("age %v is unpacked as %v, want %v", test.age, got, test.want)
		}
	}
}

// TestD3ClocksOutOfBounds: a leader whose clocks are wrong by centuries writes entries that replicas read.
func TestD3ClocksOutOfBounds(t *testing.T) {
	for _, clocks := range []Clocks{
		{WallMS: 1 << 60, Log: math.MaxInt64}, {WallMS: -5, Log: -time.Hour}, {WallMS: 1}, {Log: time.Microsecond},
	} {
		data, err := EncodeAt(nil, clocks)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(data)
		if err != nil || e.Clocks.WallMS < 1 || e.Clocks.WallMS > codec.MaxClockMS || e.Clocks.Log < 0 {
			t.Errorf("%+v is read as %+v, %v", clocks, e.Clocks, err)
		}
	}
}
