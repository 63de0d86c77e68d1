package wire

import (
	"strings"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Methods that end by themselves, after the requests that are under way.
const (
	ConnectMethod = holdfastv1.SessionService_Connect_FullMethodName
	FollowMethod  = peerv1.PeerService_Follow_FullMethodName
)

// Ours reports whether a method is one of Holdfast's own.
func Ours(method string) bool { return strings.HasPrefix(method, "/holdfast.") }

// TellsState reports whether refusals of a method tell the node's state: those of SessionService and IdService do (N1).
func TellsState(method string) bool {
	return Ours(method) && !strings.HasPrefix(method, "/"+holdfastv1.ClusterService_ServiceDesc.ServiceName+"/")
}
