package main

import (
	"fmt"
	"net"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// tableName is the one table that holds all rules; to heal is to delete it.
const tableName = "holdfast_cut"

// way is one direction of packets: where they are seen, and where in the IPv4 header the other side's address stands.
type way struct {
	name   string
	hook   *nftables.ChainHook
	offset uint32
}

const (
	sourceOffset      = 12
	destinationOffset = 16
	addressLen        = 4
)

func directions(name string) ([]way, error) {
	in := way{"in", nftables.ChainHookInput, sourceOffset}
	out := way{"out", nftables.ChainHookOutput, destinationOffset}
	switch name {
	case "both":
		return []way{in, out}, nil
	case "in":
		return []way{in}, nil
	case "out":
		return []way{out}, nil
	default:
		return nil, errUsage
	}
}

// cut adds rules that count and drop. Cuts add up until heal.
func cut(conn *nftables.Conn, ways []way, ips []net.IP) error {
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
	for _, w := range ways {
		chain := conn.AddChain(&nftables.Chain{
			Name: w.name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: w.hook, Priority: nftables.ChainPriorityFilter,
		})
		for _, ip := range ips {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: drop(w.offset, ip)})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("add rules: %w", err)
	}
	return nil
}

// drop matches one address, counts and drops.
func drop(offset uint32, ip net.IP) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressLen},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ip.To4()},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
}

// counter sums the packets that all rules have dropped.
func counter(conn *nftables.Conn) (uint64, error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return 0, fmt.Errorf("list chains: %w", err)
	}
	var dropped uint64
	for _, chain := range chains {
		if chain.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(chain.Table, chain)
		if err != nil {
			return 0, fmt.Errorf("list rules: %w", err)
		}
		dropped += packets(rules)
	}
	return dropped, nil
}

func packets(rules []*nftables.Rule) uint64 {
	var sum uint64
	for _, r := range rules {
		for _, e := range r.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				sum += c.Packets
			}
		}
	}
	return sum
}

// heal deletes the table, if there is one.
func heal(conn *nftables.Conn) error {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == tableName {
			conn.DelTable(t)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete table: %w", err)
	}
	return nil
}
