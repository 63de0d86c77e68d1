package raftnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
)

// shake does the TLS handshake on an accepted connection, if the listener has TLS. It tells a node that greets without
// TLS when TLS is required.
func (l *Layer) shake(conn net.Conn) (greeting, error) {
	//nolint:forbidigo // Close ends the connection, and that ends the handshake
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.HandshakeTimeout)
	defer cancel()
	err := secure.Handshake(ctx, conn)
	if e, ok := errors.AsType[*session.TLSError](err); ok && e.Plain {
		return greeting{}, errors.Join(err, l.refusePlain(secure.Refused(conn)))
	}
	return greeting{}, err
}

// refusePlain answers a greeting without TLS.
func (l *Layer) refusePlain(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(l.cfg.HandshakeTimeout)); err != nil {
		return err
	}
	theirs, err := readGreeting(conn)
	if errors.Is(err, errHTTP) {
		answerHTTP(conn)
	}
	if err != nil {
		return err
	}
	refused := l.greeting(codeTLS)
	refused.text = fmt.Sprintf("node %d requires TLS (node_tls is require there), and node %d greets without (node_tls "+
		"is off there): make them the same, by way of prefer", l.cfg.Node, theirs.node)
	_, err = conn.Write(refused.bytes())
	return err
}

// identify returns an error if the other side's certificate belongs to another node than its greeting.
func (l *Layer) identify(conn net.Conn, theirs greeting) error {
	certificate := secure.PeerCertificate(conn)
	if certificate == nil {
		return nil // without TLS
	}
	of, err := secure.NodeOf(certificate, l.cfg.ClusterID)
	if err != nil {
		return err // the listener and the dialler have checked it
	}
	if of != theirs.node {
		return &refusal{
			codeIdentity, fmt.Sprintf("node %d was greeted as node %d, with the certificate of node %d: check node and "+
				"tls_cert there", l.cfg.Node, theirs.node, of),
		}
	}
	return nil
}
