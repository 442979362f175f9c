package tasks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"nightshift/internal/redistest"
)

// pingerEnv has the address of Redis: the test binary runs itself with it, as a
// process that does nothing but wait for PONGs. In the process that also does the
// work, goroutines would wait for each other.
const pingerEnv = "NIGHTSHIFT_TEST_PINGER"

// worstPings are the longest waits for a PONG: as they were, and less the time that
// Redis and this process waited for a CPU, since they share the machine with the work.
type worstPings struct{ seen, redis time.Duration }

// pinger asks Redis every 2 ms, and answers each line of in with the worst since the
// one before.
func pinger(addr string, in io.Reader, out io.Writer) error {
	pid, err := processOf(addr)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	f, err := conn.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var worst worstPings
	go func() {
		runtime.LockOSThread() // one thread asks and waits, and its waits are known
		for {
			seen, waited := ping(int(f.Fd()), pid)
			mu.Lock()
			worst.seen, worst.redis = max(worst.seen, seen), max(worst.redis, seen-waited)
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
		}
	}()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		mu.Lock()
		_, err := fmt.Fprintln(out, int64(worst.seen), int64(worst.redis))
		worst = worstPings{}
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// processOf is the process ID of a Redis.
func processOf(addr string) (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	info, err := rdb.Info(context.Background(), "server").Result()
	if err != nil {
		return "", err
	}
	_, pid, _ := strings.Cut(info, "process_id:")
	return strings.Fields(pid)[0], nil
}

// ping waits for one PONG, blocking its thread, and returns how long, and how much
// of that both sides were ready to run and had no CPU.
func ping(fd int, pid string) (took, waited time.Duration) {
	reply := make([]byte, 64)
	before, start := waitedForCPU(pid)+waitedForCPU("thread-self"), time.Now()
	if _, err := syscall.Write(fd, []byte("PING\r\n")); err != nil {
		return 0, 0
	}
	if _, err := syscall.Read(fd, reply); err != nil {
		return 0, 0
	}
	took = time.Since(start)
	return took, waitedForCPU(pid) + waitedForCPU("thread-self") - before
}

// waitedForCPU is how long a process's main thread was ready to run and did not, by
// its schedstat; 0 where the system does not tell.
func waitedForCPU(process string) time.Duration {
	text, _ := os.ReadFile("/proc/" + process + "/schedstat")
	if f := strings.Fields(string(text)); len(f) == 3 {
		n, _ := strconv.ParseInt(f[1], 10, 64)
		return time.Duration(n)
	}
	return 0
}

// pings returns a question for the worst PINGs since it was asked last.
func pings(b *testing.B, s *redistest.Server) func() worstPings {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), pingerEnv+"="+s.Addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close() // it ends
		_ = cmd.Wait()
	})
	return func() (w worstPings) {
		if _, err := fmt.Fprintln(in); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &w.seen, &w.redis); err != nil {
			b.Fatal(err)
		}
		return w
	}
}
