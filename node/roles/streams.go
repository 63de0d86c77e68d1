package roles

import (
	"sync/atomic"

	"holdfast/session"
)

// Streams numbers the streams that this process opens to leaders (T6 newest stream only). Safe for concurrent use.
type Streams struct {
	// process is what the greetings of all streams have in common.
	process session.Hello
	opened  atomic.Uint64
}

// NewStreams returns the streams of a process. Greetings have process in common.
func NewStreams(process session.Hello) *Streams { return &Streams{process: process} }

// next returns the greeting of the next stream.
func (s *Streams) next() session.Hello { return s.greeting(s.opened.Add(1)) }

// Newest returns the greeting of the newest stream. Its number is 0 before the first stream.
func (s *Streams) Newest() session.Hello { return s.greeting(s.opened.Load()) }

func (s *Streams) greeting(number uint64) session.Hello {
	hello := s.process
	hello.Stream = number
	return hello
}
