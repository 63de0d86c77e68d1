package page

// claim says how a block or a command of docs/operations is run: by tests, which type it from there, or in another way,
// or why it is not.
type claim struct {
	tests    []string
	how, not string
}

// Tests that type the commands.
const (
	processes = "TestPageOnProcesses"
	machine   = "TestPageOnOneMachine"
	drills    = "TestBackupDrill"
	container = "TestBackupDrillInContainers"
	tarball   = "TestTheTarballInstalls"
)

// Why no test types some commands.
const (
	noKubernetes = "tests have no Kubernetes; test/deploy decodes the manifests"
	noSystemd    = "the machines of tests have no systemd as their first process"
)

// claims has every block, by its name, and every command of the text.
func claims() map[string]claim {
	all := map[string]claim{
		"start the unit": {not: noSystemd + "; test/deploy has systemd-analyze read the unit, and " + tarball +
			" runs the rest"},
		"empty a directory":                                        {not: "it is for three kinds of machine; node/emptied_test.go empties directories"},
		"place a directory":                                        {not: "it needs root; " + drills + " moves directories of its nodes"},
		"kubectl apply -k deploy/kubernetes":                       {not: noKubernetes},
		"kubectl -n holdfast logs holdfast-1":                      {not: noKubernetes},
		"kubectl -n holdfast rollout restart statefulset/holdfast": {not: noKubernetes},
		"systemctl start holdfast":                                 {not: noSystemd},
		"systemctl stop holdfast":                                  {not: noSystemd},
		"journalctl -u holdfast":                                   {not: noSystemd},
		"docker logs NAME":                                         {how: "tests with containers keep logs with it"},
		"holdfast cluster add 4 n4.example.com":                    {how: processes + " types it with NODE and HOST"},
		"holdfast cluster promote 4":                               {how: processes + " types it with NODE"},
		"holdfast cluster transfer-leader 1":                       {how: processes + " types it with [NODE]"},
		"node is not drained: ...":                                 {not: "it is what an error says"},
		"make build":                                               {how: "make e2e does it before its tests"},
		"make release":                                             {how: "make test does what it does, twice: make release-check"},
		"make up":                                                  {how: container + " types it in a block"},
		"make up TLS=1":                                            {how: container + " types it in a block"},
		"node health":                                              {how: processes + " types it with an address"},
		"node recover":                                             {how: drills + " types it in a block"},
		"node restore":                                             {how: drills + " types it in a block"},
		"docker cp":                                                {how: container + " types it in a block"},
		"holdfast cert":                                            {how: processes + " types it in a block"},
		"holdfast session explain":                                 {how: processes + " types it with an id"},
		"node run --join":                                          {how: "TestPageOnProcesses starts a node with it"},
	}
	for test, typed := range typing() {
		for _, what := range typed {
			all[what] = claim{tests: append(all[what].tests, test)}
		}
	}
	return all
}

// typing has what each test types.
func typing() map[string][]string {
	return map[string][]string{
		drills:  {"backup", "restore", "recover"},
		tarball: {"install the tarball", "go version holdfast-node"},
		machine: {
			"one machine", "each node in turn", "holdfast session keep-alive --timeout 10s", "kill -TERM ${process[@]}",
			"rm -r bin/data/n*", "node dev", "node dev --tls", "holdfast auth token show FILE",
			"holdfast --auth-token-file FILE", "tokens", "certificates", "holdfast cert show FILE",
		},
		container: {
			"a broken network", "a secured cluster", "a client that lists", "make down", "make up NODES=5",
			"deploy/certificates bin/holdfast bin/certificates 3 holdfast", "backup", "restore in containers",
			"recover in containers",
		},
		processes: {
			"drain", "node health --address HOST:7403", "holdfast cluster status", "holdfast cluster status -o json",
			"holdfast cluster members", "holdfast cluster drain NODE",
			"holdfast cluster add NODE HOST", "holdfast cluster promote NODE", "holdfast cluster demote NODE",
			"holdfast cluster transfer-leader [NODE]", "holdfast cluster remove NODE --yes",
			"holdfast cluster freeze --for 30m --reason \"...\"", "holdfast cluster freeze --for 30m --reason \"new switches\"",
			"holdfast cluster thaw", "holdfast session ls", "holdfast session ls --max-age 1m",
			"holdfast session ls --label service=web", "holdfast session ls --owner 2", "holdfast session explain ID",
			"holdfast session deaths --since 1h", "holdfast session watch", "holdfast session extend ID --for 10m",
			"holdfast session kill --label service=web --dry-run",
			"holdfast session kill --label service=web --reason \"stuck since the deploy\"",
			"holdfast session kill --principal NAME", "holdfast cluster connections",
			"holdfast snapshot save --local", "holdfast rm -r", "holdfast id allocate", "holdfast id decode", "date -u",
			"df", "du -s",
		},
	}
}
