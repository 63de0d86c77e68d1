package wire

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// StateInterceptor returns an interceptor that calls received with the node's state in each answer and each refusal of
// a unary call.
func StateInterceptor(received func(session.NodeState)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		state := StateOf(err)
		if answer, has := reply.(interface{ GetState() *holdfastv1.NodeState }); has && err == nil {
			state = StateFrom(answer.GetState())
		}
		if state.Node != 0 {
			received(state)
		}
		return err
	}
}
