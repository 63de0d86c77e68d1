// Package separate receives a node's messages one by one.
package separate

import holdfastv1 "holdfast/proto/holdfast/v1"

// stream is a Connect stream that returns joined messages one by one, each with the node's state.
type stream struct {
	holdfastv1.SessionService_ConnectClient
	unread []*holdfastv1.ServerMessage
}

// Stream takes the results of Connect, and returns the stream with a Recv that returns one message at a time, with the
// node's state. The node joins messages that wait together (B2 batched answers).
func Stream(from holdfastv1.SessionService_ConnectClient, err error) (holdfastv1.SessionService_ConnectClient, error) {
	if err != nil {
		return nil, err
	}
	return &stream{SessionService_ConnectClient: from}, nil
}

func (s *stream) Recv() (*holdfastv1.ServerMessage, error) {
	for len(s.unread) == 0 {
		m, err := s.SessionService_ConnectClient.Recv()
		if err != nil || m.GetAnswers() == nil {
			return m, err
		}
		s.unread = m.GetAnswers().GetMessages()
		for _, one := range s.unread {
			one.State = m.GetState()
		}
	}
	m := s.unread[0]
	s.unread = s.unread[1:]
	return m, nil
}

// Joined returns the stream below a stream of this package, whose messages are as the node sends them. Call it before
// the first Recv.
func Joined(s holdfastv1.SessionService_ConnectClient) holdfastv1.SessionService_ConnectClient {
	if s, ok := s.(*stream); ok {
		return s.SessionService_ConnectClient
	}
	return s
}
