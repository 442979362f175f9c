package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Source says who named the Redis URL.
type Source string

// The sources, the weakest first.
const (
	FromDefault     Source = "default"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// RedisKind is how a Redis is reached.
type RedisKind string

// The kinds of a Redis.
const (
	RedisSingle   RedisKind = "single"
	RedisSentinel RedisKind = "sentinel"
	RedisCluster  RedisKind = "cluster"
	RedisEmbedded RedisKind = "embedded" // in this process
)

// RedisTarget is a Redis URL taken apart. It may hold passwords; printed, it
// shows none.
type RedisTarget struct {
	Kind     RedisKind
	Network  string   // "tcp" or "unix"
	Addrs    []string // host:port, one for RedisSingle; or the socket's path
	Username string
	Password string
	DB       int
	TLS      bool
	// Master and SentinelPassword are for RedisSentinel.
	Master           string
	SentinelPassword string
}

// Target takes the URL apart:
//
//	redis://[user:password@]host[:6379][/db]            rediss: with TLS
//	redis-socket://[user:password@]/path/to.sock[?db=0]
//	redis-sentinel://[user:password@]host[:26379],host[:26379][/db]?master=name[&sentinel_password=secret]
//	redis-cluster://[user:password@]host[:6379],host[:6379]
//	embedded
//
// net/url cannot do this: since Go 1.26 it refuses a list of hosts with ports.
// Errors never quote the URL, which may hold a password.
func (r Redis) Target() (RedisTarget, error) {
	if r.URL == "embedded" {
		return RedisTarget{Kind: RedisEmbedded}, nil
	}
	scheme, rest, ok := strings.Cut(r.URL, "://")
	if !ok {
		return RedisTarget{}, errors.New("not a Redis URL")
	}
	u, err := cutRedisURL(rest)
	if err != nil {
		return RedisTarget{}, err
	}
	switch scheme {
	case "redis", "rediss":
		return u.single(scheme == "rediss")
	case "redis-socket":
		return u.socket()
	case "redis-sentinel":
		return u.sentinel()
	case "redis-cluster":
		return u.cluster()
	}
	return RedisTarget{}, errors.New("the scheme is not one of redis, rediss, redis-socket, redis-sentinel, redis-cluster")
}

// Example is how a URL of the scheme looks, as the remedy for a bad one.
func (r Redis) Example() string {
	const write = "write it as in "
	scheme, _, _ := strings.Cut(r.URL, "://")
	switch scheme {
	case "redis-socket":
		return write + "redis-socket:///run/redis.sock?db=0"
	case "redis-sentinel":
		return write + "redis-sentinel://10.0.0.1:26379,10.0.0.2:26379/0?master=mymaster"
	case "redis-cluster":
		return write + "redis-cluster://10.0.0.1:6379,10.0.0.2:6379"
	}
	return write + `redis://127.0.0.1:6379/0, or "embedded"`
}

// redisURL is a URL behind its scheme.
type redisURL struct {
	target RedisTarget // with user and password
	hosts  string
	path   string // without its first slash
	query  url.Values
}

func cutRedisURL(rest string) (redisURL, error) {
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return redisURL{}, errors.New("the part after ? cannot be read")
	}
	u := redisURL{query: query}
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var errUser, errPassword error
		u.target.Username, errUser = url.PathUnescape(user)
		u.target.Password, errPassword = url.PathUnescape(password)
		if errUser != nil || errPassword != nil {
			return redisURL{}, errors.New("the user or the password has a bad % escape")
		}
		authority = authority[at+1:]
	}
	u.hosts, u.path = authority, path
	return u, nil
}

func (u redisURL) single(tls bool) (RedisTarget, error) {
	t := u.target
	t.Kind, t.Network, t.TLS = RedisSingle, "tcp", tls
	err := errors.Join(u.onlyQuery(), u.addrs(&t, "6379"), u.database(&t, u.path))
	if len(t.Addrs) > 1 {
		err = errors.Join(err, errors.New("several hosts need redis-cluster or redis-sentinel"))
	}
	return t, err
}

func (u redisURL) socket() (RedisTarget, error) {
	t := u.target
	t.Kind, t.Network, t.Addrs = RedisSingle, "unix", []string{"/" + u.path}
	err := errors.Join(u.onlyQuery("db"), u.database(&t, u.query.Get("db")))
	if u.hosts != "" || u.path == "" {
		err = errors.Join(err, errors.New("the path of the socket is missing"))
	}
	return t, err
}

func (u redisURL) sentinel() (RedisTarget, error) {
	t := u.target
	t.Kind, t.Network = RedisSentinel, "tcp"
	t.Master, t.SentinelPassword = u.query.Get("master"), u.query.Get("sentinel_password")
	err := errors.Join(u.onlyQuery("master", "sentinel_password"), u.addrs(&t, "26379"), u.database(&t, u.path))
	if t.Master == "" {
		err = errors.Join(err, errors.New("the name of the master is missing"))
	}
	return t, err
}

func (u redisURL) cluster() (RedisTarget, error) {
	t := u.target
	t.Kind, t.Network = RedisCluster, "tcp"
	err := errors.Join(u.onlyQuery(), u.addrs(&t, "6379"), u.database(&t, u.path))
	if t.DB != 0 {
		err = errors.Join(err, errors.New("a cluster has no database but 0"))
	}
	return t, err
}

// onlyQuery refuses parameters that would be without effect.
func (u redisURL) onlyQuery(known ...string) error {
	for name := range u.query {
		if !slices.Contains(known, name) {
			return errors.New(strings.TrimSuffix("a parameter after ? is not known; "+DidYouMean("", known), "; "))
		}
	}
	return nil
}

func (u redisURL) addrs(t *RedisTarget, port string) error {
	for _, host := range strings.Split(u.hosts, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return err
		}
		t.Addrs = append(t.Addrs, addr)
	}
	return nil
}

// hostPort adds the default port where there is none. A colon in brackets
// belongs to an IPv6 address.
func hostPort(host, port string) (string, error) {
	name := host
	if i := strings.LastIndex(host, ":"); i > strings.LastIndex(host, "]") {
		name, port = host[:i], host[i+1:]
	}
	if name == "" {
		return "", errors.New("the host is missing")
	}
	if strings.HasPrefix(name, "[") != strings.HasSuffix(name, "]") || strings.ContainsAny(strings.Trim(name, "[]"), "[]@ ") ||
		strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return "", errors.New("the host cannot be read")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not a number from 1 to 65535")
	}
	return name + ":" + port, nil
}

func (u redisURL) database(t *RedisTarget, text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("the database is not a number")
	}
	t.DB = int(n)
	return nil
}

// String is the URL without its passwords.
func (r Redis) String() string {
	t, err := r.Target()
	if err != nil {
		return "(not a Redis URL)"
	}
	return t.String()
}

// String is the target as a URL without its passwords.
func (t RedisTarget) String() string {
	var user string
	if t.Username != "" || t.Password != "" {
		user = url.PathEscape(t.Username) + ":xxxxx@"
	}
	switch {
	case t.Kind == RedisEmbedded:
		return "embedded"
	case t.Network == "unix":
		return fmt.Sprintf("redis-socket://%s%s?db=%d", user, t.Addrs[0], t.DB)
	case t.Kind == RedisSentinel:
		return fmt.Sprintf("redis-sentinel://%s%s/%d?master=%s", user, strings.Join(t.Addrs, ","), t.DB, url.QueryEscape(t.Master))
	case t.Kind == RedisCluster:
		return "redis-cluster://" + user + strings.Join(t.Addrs, ",")
	case t.TLS:
		return fmt.Sprintf("rediss://%s%s/%d", user, strings.Join(t.Addrs, ","), t.DB)
	}
	return fmt.Sprintf("redis://%s%s/%d", user, strings.Join(t.Addrs, ","), t.DB)
}

// GoString keeps passwords out of %#v.
func (t RedisTarget) GoString() string { return t.String() }

// MarshalText keeps passwords out of JSON.
func (t RedisTarget) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue keeps passwords out of logs.
func (t RedisTarget) LogValue() slog.Value { return slog.StringValue(t.String()) }

// GoString keeps passwords out of %#v.
func (r Redis) GoString() string { return r.String() }

// MarshalText keeps passwords out of JSON.
func (r Redis) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// LogValue keeps passwords out of logs.
func (r Redis) LogValue() slog.Value { return slog.StringValue(r.String()) }
