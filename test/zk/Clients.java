import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.ZooKeeper.States;

/**
 * Clients of Java, as clients_test.go runs them: java -cp ... Clients.java PART SERVERS. The test tells the program by
 * lines when to go on, and the program says what it has reached. It ends with 1 when a client is not as it should be.
 */
public class Clients {
    private static final int WAIT = 60;
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    /** A client, and the states that it was told. */
    private static class Client implements Watcher {
        final ZooKeeper zk;
        final List<Event.KeeperState> states = new CopyOnWriteArrayList<>();

        Client(String servers, int timeout, boolean readOnly) throws Exception {
            zk = new ZooKeeper(servers, timeout, this, readOnly);
        }

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() == Event.EventType.None) {
                states.add(event.getState());
            }
        }

        void create(String path) throws Exception {
            zk.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        }
    }

    public static void main(String[] args) throws Exception {
        int code = 0;
        try {
            if (!args[0].equals("readonly")) {
                throw new IllegalArgumentException(args[0]);
            }
            readOnly(args[1]);
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
                !former.states.contains(Watcher.Event.KeeperState.ConnectedReadOnly)
                && !former.states.contains(Watcher.Event.KeeperState.Expired));
        check("told so: " + late.states, late.states.contains(Watcher.Event.KeeperState.ConnectedReadOnly));
        say("read-write " + session + " " + late.zk.getSessionId());
        hear("end");
        late.zk.close();
        former.zk.close();
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
