package ports

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
)

// Clients get what is left: never more than max_connections, and never what the node itself needs.
func TestPartsOfTheDescriptors(t *testing.T) {
	all := defaultParts(20_000)
	for _, tt := range []struct{ limit, others, clients int }{
		{1 << 20, 2, 20_000}, {20_000, 2, 20_000 - 64 - 24 - 64 - 256 - 640}, {
			1024, 4, 1024 - 64 - 48 - 64 - 128 - 64,
		}, {200, 2, 200 - 64 - 24 - 12 - 25 - 12},
	} {
		p, err := all.within(tt.limit, tt.others)
		if err != nil || p.clients != tt.clients {
			t.Errorf("%d descriptors, %d other nodes: %+v, %v; want %d for clients", tt.limit, tt.others, p, err,
				tt.clients)
		}
	}
	// 200 open consoles hold 400 connections of the HTTP port; metrics and health need some too.
	if p, err := all.within(20_000, 2); err != nil || p.http < 2*200+100 {
		t.Errorf("the HTTP port takes %d connections, %v", p.http, err)
	}
	for limit := range 15_000 {
		p, err := all.within(limit, 2)
		if used := p.clients + p.peers + p.handshakes + p.http + ownDescriptors + 2*memberDescriptors; err == nil &&
			(used > limit || p.clients < minClients) {
			t.Fatalf("%d descriptors: %+v", limit, p)
		}
	}
	if _, err := all.within(100, 2); err == nil ||
		!strings.Contains(err.Error(), "may open 100 files, but needs at least 124") {
		t.Errorf("100 descriptors: %v", err)
	}
}

// A node that gives clients fewer connections than max_connections warns of that only where somebody asked for so many:
// the default is above the usual limit of a machine, and each start would warn.
func TestFewerClientsThanTheDefaultIsNoWarning(t *testing.T) {
	limit, err := descriptorLimit()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Clients.MaxConnections = limit // more than the rest
	for _, tt := range []struct {
		origins map[string]string
		level   string
	}{{nil, "[INFO]"}, {map[string]string{"max_connections": "--max-connections"}, "[WARN]"}} {
		var out strings.Builder
		p, err := share(&Config{
			Logger: hclog.New(&hclog.LoggerOptions{Output: &out}), Settings: cfg, Origins: tt.origins, Network: tcp{},
		})
		if err != nil || p.clients >= limit || strings.Count(out.String(), "\n") != 1 ||
			!strings.Contains(out.String(), tt.level) {
			t.Errorf("from %v: %+v, %v\n%s", tt.origins, p, err, out.String())
		}
	}
}

// TestDescriptorsOfZooKeeper: ZooKeeper's clients get as many descriptors as the others, and none without their port.
func TestDescriptorsOfZooKeeper(t *testing.T) {
	p := defaultParts(20_000)
	p.zookeeper = p.clients
	with, err := p.within(20_000, 2)
	without, errWithout := defaultParts(20_000).within(20_000, 2)
	if err != nil || errWithout != nil || with.clients != without.clients/2 || with.zookeeper != with.clients ||
		without.zookeeper != 0 {
		t.Errorf("with the port %+v %v, without %+v %v", with, err, without, errWithout)
	}
}
