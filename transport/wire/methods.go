package wire

import (
	"strings"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Methods of streams that end by themselves after their requests in flight.
const (
	ConnectMethod = holdfastv1.SessionService_Connect_FullMethodName
	FollowMethod  = peerv1.PeerService_Follow_FullMethodName
)

// Ours reports whether a method belongs to Holdfast.
func Ours(method string) bool { return strings.HasPrefix(method, "/holdfast.") }

// CarriesState reports whether refusals of a method carry the node's state: refusals of SessionService and IdService do
// (N1 node mode).
func CarriesState(method string) bool {
	return Ours(method) && !strings.HasPrefix(method, "/"+holdfastv1.ClusterService_ServiceDesc.ServiceName+"/")
}
