package port

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// A message that could be read is not refused as unreadable, whatever unknown fields it has.
func TestUnknownFieldsAreNoFault(t *testing.T) {
	b := protowire.AppendTag(nil, malformedField, protowire.BytesType)
	b = protowire.AppendString(b, "some reason")
	var m holdfastv1.OpenSessionRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if err := newCodec().unreadable(&m); err != nil {
		t.Errorf("got %v", err)
	}
}
