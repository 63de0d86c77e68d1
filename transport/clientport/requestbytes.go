package clientport

import (
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

const (
	// messageBytes is the approximate memory of a decoded request besides its fields.
	messageBytes = 512
	// labelBytes is the approximate memory of a decoded label besides its text, opBytes of an operation or condition of
	// the tree, grantBytes of a grant in an access list or of a watch.
	labelBytes = 96
	opBytes    = 256
	grantBytes = 96
)

// bytesOf is the approximate memory of a message. Numbers, labels and the parts of transactions take more than on the
// wire.
func bytesOf(m *holdfastv1.ClientMessage) int {
	bytes := proto.Size(m)
	requests := m.GetBatch().GetRequests()
	if m.GetBatch() == nil {
		requests = []*holdfastv1.ClientMessage{m}
	}
	for _, one := range requests {
		many := one.GetResumeSessions()
		bytes += messageBytes + labelBytes*len(one.GetOpen().GetLabels()) +
			8*(len(many.GetAttachments())+len(many.GetAttempts())) + 8*len(one.GetTouch().GetAcked()) +
			partBytes(one.GetWrite().GetTransaction()) + partBytes(one.GetWrite().GetWill().GetTransaction()) +
			grantBytes*(len(one.GetAddWatches().GetWatches())+len(one.GetRemoveWatches().GetWatches()))
	}
	return bytes
}

// partBytes is the approximate memory of a transaction's parts besides their fields.
func partBytes(x *holdfastv1.Transaction) int {
	bytes := opBytes * len(x.GetConditions())
	for _, ops := range [...][]*holdfastv1.Op{x.GetThen(), x.GetElse()} {
		for _, op := range ops {
			bytes += opBytes + grantBytes*(len(op.GetCreate().GetAcl().GetGrants())+len(op.GetSetAcl().GetAcl().GetGrants()))
		}
	}
	return bytes
}
