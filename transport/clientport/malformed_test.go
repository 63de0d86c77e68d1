package clientport

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// invalidText returns an open with a label that is not UTF-8.
func invalidText(t *testing.T) []byte {
	t.Helper()
	b, err := proto.Marshal(
		&holdfastv1.OpenSessionRequest{RequestId: make([]byte, 16), Labels: map[string]string{"key": "value"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(string(b), "value", "va\xff\xfee", 1))
}

// An unreadable message is refused as any other mistake of a client: with a code, a field and the limit.
func TestUnreadableMessagesAreRefusedByName(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes []byte
		says  string
	}{
		"garbage":     {[]byte{0xff, 0xff, 0xff}, "cannot parse"},
		"no UTF-8":    {invalidText(t), "invalid UTF-8"},
		"a cut field": {[]byte{0x0a, 0x10, 1, 2, 3}, "cannot parse"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				_, network, stop := clientPort(t, Config{}, &fakeService{})
				defer stop()
				err := dialPipes(t, network).Invoke(t.Context(), "/holdfast.v1.SessionService/OpenSession", &tt.bytes,
					new([]byte), grpc.ForceCodecV2(rawCodec{}))
				field, ok := errors.AsType[*session.FieldError](wire.Domain(err))
				if status.Code(err) != codes.InvalidArgument || !ok || field.Field != "message" ||
					!strings.Contains(field.Limit, "valid protobuf of holdfast.v1.OpenSessionRequest") ||
					!strings.Contains(field.Limit, tt.says) {
					t.Errorf("got %v, want INVALID_ARGUMENT with the field message, and %q", err, tt.says)
				}
			})
		})
	}
}
