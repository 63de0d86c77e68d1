package node

import (
	"sync/atomic"

	"holdfast/session"
)

// streams numbers the streams that this process opens to leaders (T6). Safe for concurrent use.
type streams struct {
	// process is what the greetings of all streams have in common.
	process session.Hello
	opened  atomic.Uint64
}

// next returns the greeting of the next stream.
func (s *streams) next() session.Hello { return s.greeting(s.opened.Add(1)) }

// newest returns the greeting of the newest stream. Its number is 0 before the first stream.
func (s *streams) newest() session.Hello { return s.greeting(s.opened.Load()) }

func (s *streams) greeting(number uint64) session.Hello {
	hello := s.process
	hello.Stream = number
	return hello
}
