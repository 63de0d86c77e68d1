package clientport

import (
	"cmp"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/gate"
	"holdfast/transport/guard"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// Config configures a [Server]. The zero value of a field is its default.
type Config struct {
	Logger hclog.Logger
	// Credentials of the transport; nil is plaintext.
	Credentials credentials.TransportCredentials
	// Limits bound the connections, calls and bytes of the port. Defaults: messages of 1 MiB, 64 streams a connection,
	// 20,000 connections, any number for each address, 25,000 calls, and 256 MiB of waiting bytes.
	Limits port.Limits
	// Stream bounds one Connect stream.
	Stream StreamLimits
	// Patience is how long a client may read none of its waiting messages, after a large message a little longer;
	// default 30 s.
	Patience time.Duration
	// Keepalive defaults to a test after 30 s with 10 s for the answer. A client may ping every 5 s.
	Keepalive port.Keepalive
	// Gate says how many requests of clients the node takes on in a second; zero is no limit.
	Gate gate.Config
	// TouchWait bounds how long one TouchSessions waits for tokens that are newer than this node; default 1 s.
	TouchWait time.Duration
	// Super is the digest, NAME:HASH, of the client that no access list of the tree holds back (P1 of the tree); "" for
	// none.
	Super string
	// Snapshots freezes the node's state for backups; nil: the node makes none.
	Snapshots Snapshots
	Operators
	// Audit writes down what clients write as [tree.Super]; nil: nothing does. What operators do else is the Guard's.
	Audit *guard.Audit
	// Guard decides who may make which call; nil lets everybody make all.
	Guard port.Guard
	// Clock is the wall clock that ids are made from (O1); nil is time.Now.
	Clock func() time.Time
	// Touched, if set, is called at each touch of all sessions of a Connect stream that comes after another one, with what
	// is left of the promise that the former one was answered with, 0 when nothing is. Told, if set, is called for each
	// event of the tree that goes to a client, with the index of the entry that made the change. Several goroutines call
	// them. Both must return at once.
	Touched func(left time.Duration)
	Told    func(index uint64)
}

// Operators are what the node does for operators.
type Operators struct {
	// Admin serves AdminService; nil: nothing does.
	Admin session.Administration
	// Drains drains the node; nil: it cannot be drained.
	Drains Drains
	// Members changes the members; nil: they cannot be changed.
	Members Memberships
	// Census lists the connections of the node; nil: one of this port's own.
	Census *census.Census
}

// StreamLimits bound what one Connect stream makes the node hold. The zero value of a field is its default.
type StreamLimits struct {
	// Sessions is the number of sessions that the stream serves; default 100,000. A client with more opens another
	// connection, so that no single goroutine reads and writes for all.
	Sessions int
	// Requests is the number of opens, resumes, upgrades and closes under way; default 1,024. A client that sends more
	// ahead only makes them wait at the node.
	Requests int
	// Outgoing is the number of messages that wait for a client that does not read; default 4,096, or twice Requests if
	// that is more: the node may answer all requests at once. One more ends the stream with RESOURCE_EXHAUSTED.
	Outgoing int
}

const (
	// callsPerConnection leaves room beside the one Connect stream of the SDK for its reads and single calls.
	callsPerConnection = 64
	// leastCalls are allowed on all connections together, however few those may be. Otherwise the default is a quarter
	// above the limit of connections: a client has one stream for its sessions, and few have calls beside it.
	leastCalls = 1000
	// The defaults of [StreamLimits].
	defaultSessions = 100_000
	defaultRequests = 1024
	defaultOutgoing = 4096
)

func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	c.Limits.MessageBytes = cmp.Or(c.Limits.MessageBytes, wire.DefaultMessageBytes)
	c.Limits.StreamsPerConnection = cmp.Or(c.Limits.StreamsPerConnection, callsPerConnection)
	c.Limits.Connections = cmp.Or(c.Limits.Connections, 20_000)
	c.Limits.Calls = cmp.Or(c.Limits.Calls, max(leastCalls, c.Limits.Connections+c.Limits.Connections/4))
	c.Limits.WaitingBytes = cmp.Or(c.Limits.WaitingBytes, 256<<20)
	c.Stream.Sessions = cmp.Or(c.Stream.Sessions, defaultSessions)
	c.Stream.Requests = cmp.Or(c.Stream.Requests, defaultRequests)
	c.Stream.Outgoing = cmp.Or(c.Stream.Outgoing, max(defaultOutgoing, 2*c.Stream.Requests))
	c.Patience = cmp.Or(c.Patience, port.ReadPatience)
	c.Keepalive.Time = cmp.Or(c.Keepalive.Time, 30*time.Second)
	c.Keepalive.Timeout = cmp.Or(c.Keepalive.Timeout, 10*time.Second)
	c.Keepalive.MinTime = cmp.Or(c.Keepalive.MinTime, 5*time.Second)
	c.TouchWait = cmp.Or(c.TouchWait, time.Second)
	if c.Census == nil {
		c.Census = census.New()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}
