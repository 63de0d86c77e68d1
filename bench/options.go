package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"holdfast/bench/play"
	"holdfast/bench/system"
)

// options are the flags.
type options struct {
	works, peers, json, show, dir, jar, etcd string
	runs                                     int
	how                                      play.Options
}

func parse(args []string, errs io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.works, "works", "", "works to play, separated by commas: "+
		strings.Join(names(play.All()), ",")+"; empty plays all but needless and those that begin with zk-")
	flags.StringVar(&o.peers, "peers", "bin/node,sdk:bin/node,zookeeper,kazoo,etcd",
		"systems, separated by commas: the path of a node of Holdfast, or NAME=PATH; the same behind sdk: to use it through "+
			"the Go SDK, behind zk: to use it through its port for ZooKeeper's clients; zookeeper; kazoo, which is "+
			"ZooKeeper through that client, for locks; etcd. Peers that are not installed are left out")
	flags.IntVar(&o.runs, "runs", 3, "plays of each work with each system")
	flags.Float64Var(&o.how.Scale, "scale", 1, "multiplies numbers of sessions and requests")
	flags.IntVar(&o.how.Size, "servers", 3, "servers of a cluster")
	flags.IntVar(&o.how.Sessions, "sessions", 1_000_000, "sessions of the work full-leader-killed")
	of := &o.how.Trouble
	of.Grace = 5 * time.Second
	flags.DurationVar(&of.Length, "for", 10*time.Minute, "length of the work needless")
	flags.IntVar(&of.Clusters, "clusters", 1, "clusters side by side in the work needless")
	flags.IntVar(&of.Loops, "loops", 20, "busy loops beside the work needless")
	flags.DurationVar(&of.Stop, "stop", 300*time.Millisecond, "length of a stop of a node in the work needless")
	flags.DurationVar(&of.Every, "every", 5*time.Second, "mean time between two stops of a cluster in the work needless")
	flags.StringVar(&o.json, "json", "", "file that gets the figures of every run")
	flags.StringVar(&o.show, "show", "",
		"files that -json wrote, separated by commas: print their table, and play nothing")
	flags.StringVar(&o.dir, "dir", "", "directory for the servers' data, in a directory that is removed (default: the "+
		"system's for temporary files)")
	flags.StringVar(&o.jar, "zookeeper-jar", "/usr/share/java/zookeeper.jar", "ZooKeeper, as Debian installs it")
	flags.StringVar(&o.etcd, "etcd", ".bin/etcd", "etcd's server")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if of.Length <= 0 || of.Clusters < 1 || of.Loops < 0 || of.Stop <= 0 || of.Every <= 0 {
		return o, errors.New("-for, -clusters, -stop and -every above 0, and -loops not below")
	}
	if flags.NArg() > 0 || o.runs < 1 || o.how.Scale <= 0 || o.how.Sessions < 1 || o.how.Size < 2 {
		return o, errors.New("no arguments, and at least one run, a scale above 0, one session and two servers")
	}
	o.how.Log = func(format string, args ...any) { _, _ = fmt.Fprintf(errs, format+"\n", args...) }
	return o, nil
}

func names(works []play.Work) []string {
	var all []string
	for _, w := range works {
		all = append(all, w.Name)
	}
	return all
}

// choose returns the works of a list; for an empty one all works that are not played apart.
func choose(list string) ([]play.Work, error) {
	all := play.All()
	if list == "" {
		return slices.DeleteFunc(all, func(w play.Work) bool { return w.Apart || w.Beside }), nil
	}
	var chosen []play.Work
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(w play.Work) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no work %q: they are %s", name, strings.Join(names(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// systems returns what is to be compared. Peers that are not there are left out, which the log says.
func (o options) systems() ([]system.System, error) {
	var all []system.System
	for entry := range strings.SplitSeq(o.peers, ",") {
		s, needs := o.system(entry)
		_, err := os.Stat(needs)
		switch {
		case err == nil:
			all = append(all, s)
		case entry == "zookeeper" || entry == "kazoo" || entry == "etcd":
			o.how.Log("%s is left out: %v", entry, err)
		default:
			return nil, err
		}
	}
	return all, nil
}

// system returns a system and the path of what it needs.
func (o options) system(entry string) (is system.System, needs string) {
	switch entry {
	case "zookeeper":
		return system.ZooKeeper{Jar: o.jar}, o.jar
	case "kazoo":
		return system.Kazoo{ZooKeeper: system.ZooKeeper{Jar: o.jar}}, system.KazooFile
	case "etcd":
		return system.Etcd{Program: o.etcd}, o.etcd
	}
	rest, sdk := strings.CutPrefix(entry, "sdk:")
	rest, port := strings.CutPrefix(rest, "zk:")
	h := system.Holdfast{Column: "Holdfast", Node: rest}
	if name, path, named := strings.Cut(rest, "="); named {
		h = system.Holdfast{Column: name, Node: path}
	}
	switch {
	case sdk:
		return system.SDK{Holdfast: h}, h.Node
	case port:
		return system.ZooPort{Holdfast: h}, h.Node
	}
	return h, h.Node
}
