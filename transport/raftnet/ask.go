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

// Ask sends a question to the member at address, an address of Raft's configuration, and returns the node's answer. It
// ends at the deadline of ctx, and after Config.HandshakeTimeout at the latest. The error is [ErrRefused] when no
// process listens at any address of the member.
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
	answers := make(chan addressAnswer, len(hosts))
	for _, at := range hosts { // at the same time, so that a silent address does not delay the other one
		go func() {
			answer, err := l.askAt(ctx, at, want, question)
			answers <- addressAnswer{answer, err}
		}()
	}
	refused := 0
	var failed error
	for range hosts {
		a := <-answers
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

// addressAnswer is the answer from one address.
type addressAnswer struct {
	answer []byte
	err    error
}

// askAt sends the question to the node at one address, which must be the wanted member.
func (l *Layer) askAt(ctx context.Context, host string, want Directory, question []byte) ([]byte, error) {
	met, err := l.exchange(ctx, host, codeAsk, want, question)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", host, err)
	}
	return met.Answer, nil
}

// Links returns the connections that a node has opened to this one.
func (l *Layer) Links(node session.Node) Links { return l.greeted.links(node) }
