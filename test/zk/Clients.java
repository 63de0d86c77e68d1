import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.ZooKeeper.States;

/**
 * Clients of Java, as clients_test.go runs them: java -cp ... Clients.java PART SERVERS. The test tells the program by
 * lines when to go on, and the program says what it has reached. It ends with 1 when a client is not as it should be.
 */
public class Clients {
    private static final int WAIT = 60;
    private static final int GROUPS = 20;
    private static final int GROUP = 50;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    /** A client, and the states that it was told. */
    private static class Client implements Watcher {
        final ZooKeeper zk;
        final List<KeeperState> states = new CopyOnWriteArrayList<>();
        final AtomicInteger changes = new AtomicInteger();

        Client(String servers, int timeout, boolean readOnly) throws Exception {
            zk = new ZooKeeper(servers, timeout, this, readOnly);
        }

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() == Event.EventType.None) {
                states.add(event.getState());
            } else if (event.getType() == Event.EventType.NodeDataChanged) {
                changes.incrementAndGet();
            }
        }

        void create(String path) throws Exception {
            zk.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        }
    }

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            switch (args[0]) {
                case "readonly" -> readOnly(args[1]);
                case "expiry" -> expiry(args[1]);
                case "crowd" -> crowd(args[1]);
                default -> throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable failed) {
            failed.printStackTrace(System.out);
            code = 1;
        }
        System.out.flush();
        System.exit(code);
    }

    /** Two clients allow a read-only server: of a session of the cluster, and of none until there is no quorum. */
    private static void readOnly(String servers) throws Exception {
        Client former = new Client(servers.substring(servers.lastIndexOf(',') + 1), 30_000, true);
        until("connected", () -> former.zk.getState() == States.CONNECTED);
        long session = former.zk.getSessionId();
        former.create("/former-java");
        say("begun");
        hear("alone");
        Client late = new Client(servers, 6_000, true);
        until("read-only", () -> late.zk.getState() == States.CONNECTEDREADONLY);
        long ofNode = late.zk.getSessionId();
        check("what was written", new String(late.zk.getData("/kept", false, null)).equals("before"));
        refused(() -> late.zk.setData("/kept", new byte[0], -1));
        refused(() -> late.zk.multi(List.of(Op.check("/kept", -1), Op.delete("/kept", -1))));
        refused(() -> {
            late.create("/late-java");
            return null;
        });
        check("read-only after that",
                late.zk.getState() == States.CONNECTEDREADONLY && late.zk.getSessionId() == ofNode);
        until("cut off", () -> former.zk.getState() == States.CONNECTING);
        say("read-only");
        hear("back");
        until("read-write", () -> late.zk.getState() == States.CONNECTED);
        check("a session of the cluster", late.zk.getSessionId() != ofNode);
        late.create("/late-java");
        late.zk.setData("/of-java", "after".getBytes(), -1);
        until("connected again", () -> former.zk.getState() == States.CONNECTED);
        check("the same session", former.zk.getSessionId() == session
                && former.zk.exists("/former-java", false).getEphemeralOwner() == session);
        check("never read-only or expired: " + former.states,
                !former.states.contains(KeeperState.ConnectedReadOnly)
                && !former.states.contains(KeeperState.Expired));
        check("told so: " + late.states, late.states.contains(KeeperState.ConnectedReadOnly));
        say("read-write " + session + " " + late.zk.getSessionId());
        hear("end");
        late.zk.close();
        former.zk.close();
    }

    /** Two clients in a process that is stopped: for longer than the timeout of one, and for less than the other's. */
    private static void expiry(String servers) throws Exception {
        Client brief = new Client(servers, 8_000, false);
        Client lasting = new Client(servers, 300_000, false);
        until("connected", () -> brief.zk.getState() == States.CONNECTED);
        until("connected", () -> lasting.zk.getState() == States.CONNECTED);
        long session = lasting.zk.getSessionId();
        brief.create("/brief-java");
        lasting.create("/long-java");
        check("told of the connection alone: " + brief.states, brief.states.equals(List.of(KeeperState.SyncConnected)));
        say("begun");
        hear("awake");
        until("told of the expiry", () -> brief.states.contains(KeeperState.Expired));
        List<KeeperState> told = brief.states.subList(1, brief.states.size());
        check("without a connection: " + told, !told.contains(KeeperState.SyncConnected));
        try {
            brief.zk.exists("/", false);
            check("expired for good", false);
        } catch (KeeperException.SessionExpiredException expected) {
            check("expired for good", brief.zk.getState() == States.CLOSED);
        }
        until("connected again", () -> lasting.states.contains(KeeperState.Disconnected)
                && lasting.zk.getState() == States.CONNECTED);
        check("the same session", lasting.zk.getSessionId() == session
                && lasting.zk.exists("/long-java", false).getEphemeralOwner() == session);
        check("without an expiry: " + lasting.states, !lasting.states.contains(KeeperState.Expired));
        say("expired " + told);
        hear("end");
        lasting.zk.close();
    }

    /**
     * Many clients at once, whose watches hear of one write. A client that closes sleeps for 100 ms with a lock that all
     * clients share whose class is the same. So each group of clients has classes of its own.
     */
    private static void crowd(String servers) throws Exception {
        List<UnaryOperator<String>> groups = new ArrayList<>();
        for (int i = 0; i < GROUPS; i++) {
            groups.add(group());
        }
        check("sessions", all(groups, "open " + servers));
        until("all connected", () -> all(groups, "connected"));
        check("entries", all(groups, "begin"));
        until("an entry and a watch of each", () -> all(groups, "begun"));
        check("all connected still", all(groups, "connected"));
        say("all " + GROUPS * GROUP);
        hear("rung");
        until("told of the write", () -> all(groups, "told"));
        check("all connected still", all(groups, "connected"));
        say("heard");
        hear("close");
        ExecutorService pool = Executors.newFixedThreadPool(GROUPS);
        List<Callable<String>> closes = new ArrayList<>();
        groups.forEach(one -> closes.add(() -> one.apply("close")));
        for (Future<String> close : pool.invokeAll(closes)) {
            check("closed", close.get().equals("yes"));
        }
        say("closed");
    }

    private static boolean all(List<UnaryOperator<String>> groups, String step) {
        return groups.stream().allMatch(one -> one.apply(step).equals("yes"));
    }

    /** Returns a group, loaded anew with all that is not Java's own. */
    @SuppressWarnings("unchecked")
    private static UnaryOperator<String> group() throws Exception {
        ClassLoader mine = Clients.class.getClassLoader();
        URL[] path = {new File(System.getProperty("java.class.path")).toURI().toURL()};
        ClassLoader fresh = new URLClassLoader(path, ClassLoader.getPlatformClassLoader()) {
            @Override
            protected Class<?> findClass(String name) throws ClassNotFoundException {
                if (!name.startsWith("Clients")) {
                    return super.findClass(name);
                }
                try (InputStream file = mine.getResourceAsStream(name + ".class")) {
                    byte[] all = file.readAllBytes();
                    return defineClass(name, all, 0, all.length);
                } catch (IOException failed) {
                    throw new ClassNotFoundException(name, failed);
                }
            }
        };
        return (UnaryOperator<String>) fresh.loadClass("Clients$Group").getConstructor().newInstance();
    }

    /** A group of the crowd. It does a step, or says whether something is so of all. */
    public static class Group implements UnaryOperator<String> {
        private final List<Client> all = new ArrayList<>();
        private final AtomicInteger taken = new AtomicInteger();

        @Override
        public String apply(String step) {
            try {
                return does(step) ? "yes" : "no";
            } catch (Exception failed) {
                throw new IllegalStateException(step, failed);
            }
        }

        private boolean does(String step) throws Exception {
            switch (step) {
                case "connected":
                    return all.stream().allMatch(one -> one.states.equals(List.of(KeeperState.SyncConnected)));
                case "begin":
                    for (Client one : all) {
                        one.zk.create("/crowd-java/c-", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE,
                                CreateMode.EPHEMERAL_SEQUENTIAL, (rc, path, ctx, name) -> count(rc), null);
                        one.zk.getData("/crowd-java", true, (rc, path, ctx, data, stat) -> count(rc), null);
                    }
                    return true;
                case "begun":
                    return taken.get() == 2 * GROUP;
                case "told":
                    return all.stream().allMatch(one -> one.changes.get() == 1);
                case "close":
                    for (Client one : all) {
                        check("closed", one.zk.close(WAIT * 1000));
                    }
                    return true;
                default:
                    while (all.size() < GROUP) {
                        all.add(new Client(step.substring("open ".length()), 300_000, false));
                    }
                    return true;
            }
        }

        private void count(int rc) {
            if (rc == 0) {
                taken.incrementAndGet();
            }
        }
    }

    private static void refused(Callable<?> write) throws Exception {
        try {
            write.call();
        } catch (KeeperException.NotReadOnlyException expected) {
            return;
        }
        throw new IllegalStateException("a write was taken");
    }

    private static void say(String text) {
        System.out.println("= " + text);
        System.out.flush();
    }

    /** Waits for a line of the test. */
    private static void hear(String word) throws Exception {
        String line = IN.readLine();
        check("told " + word + " but " + line, word.equals(line));
    }

    private static void until(String what, Callable<Boolean> met) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT);
        while (!met.call()) {
            check(what, System.nanoTime() < end);
            Thread.sleep(20);
        }
    }

    private static void check(String what, boolean is) {
        if (!is) {
            throw new IllegalStateException("not " + what);
        }
    }
}
