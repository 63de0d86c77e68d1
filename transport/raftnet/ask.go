package raftnet

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// ErrRefused says that no process listens at an address.
var ErrRefused = errors.New("connection refused")

// Ask sends a question to the member at address, as Raft's configuration has it, and returns the answer of the node.
// Everything may take until the deadline of ctx, and at most Config.HandshakeTimeout. The error is [ErrRefused] when no
// process listens where the member may be.
func (l *Layer) Ask(ctx context.Context, address raft.ServerAddress, question []byte) ([]byte, error) {
	host, want, err := Split(address)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if l.waits() {
		return nil, errWaits
	}
	hosts := []string{host}
	if other := l.elsewhere(want); other != "" && other != host {
		hosts = []string{other, host}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan asked, len(hosts))
	for _, at := range hosts { // at the same time: an address where nothing answers costs the other one no time
		go func() {
			answer, err := l.askAt(ctx, at, want, question)
			told <- asked{answer, err}
		}()
	}
	refused := 0
	var failed error
	for range hosts {
		a := <-told
		if a.err == nil {
			return a.answer, nil
		}
		if errors.Is(a.err, syscall.ECONNREFUSED) {
			refused++
		}
		failed = errors.Join(failed, a.err)
	}
	if refused == len(hosts) {
		return nil, fmt.Errorf("asking %s: %w", address, ErrRefused)
	}
	return nil, failed
}

// asked is what one address has answered.
type asked struct {
	answer []byte
	err    error
}

// askAt asks the node at one address, which must be the wanted member.
func (l *Layer) askAt(ctx context.Context, host string, want Directory, question []byte) ([]byte, error) {
	met, err := l.exchange(ctx, host, codeAsk, want, question)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", host, err)
	}
	return met.Answer, nil
}

// Links returns the connections that a node has opened to this one.
func (l *Layer) Links(node session.Node) Links { return l.greeted.links(node) }
