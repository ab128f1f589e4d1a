/* The native half of the zygote: forks a booted interpreter into a sandbox that waits for one, and locks it down there
 * before any Python runs in it. A module for CPython (limited API), loaded by the zygote alone.
 *
 * The sandbox has its own init, pid 1, made by the supervisor. The interpreter has to be born in its pid namespace and in
 * its cgroups, and to end up as a child of that init. So two short-lived processes stand between, which share all memory
 * with the zygote and stop it meanwhile, as vfork(2) does:
 *
 *     zygote ── share ──▶ outer   enters the cgroups, takes the pid namespace for its children
 *                           └─ share ──▶ inner   born in the pid namespace
 *                                          └─ fork ──▶ the interpreter, whose parent ends: init adopts it
 *
 * Nothing is left that could put one session into the place of another: what outer enters ends with outer.
 *
 * What the interpreter does before it returns to Python is what `payload.rs` does before exec, in the same order: each step
 * only tightens. The rules come from the supervisor; this file decides nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of CPython, what this module uses. All of it is in the limited API, so its layout does not change. */
typedef struct object object;
typedef object *(*method)(object *, object *);
struct method_def { const char *name; method call; int flags; const char *doc; };
struct module_def {
	struct { intptr_t references; void *type; object *(*init)(void); intptr_t index; object *copy; } base;
	const char *name, *doc;
	intptr_t size;
	struct method_def *methods;
	void *slots, *traverse, *clear, *release;
};
extern object *PyModule_Create2(struct module_def *, int);
extern long PyLong_AsLong(object *);
extern object *PyLong_FromLong(long);
extern void PyOS_BeforeFork(void), PyOS_AfterFork_Parent(void), PyOS_AfterFork_Child(void);
enum { METHOD_WITH_ONE_ARGUMENT = 8, ABI_VERSION = 3 };

/* An order, as the supervisor sends it: this, then the descriptors of `enum place` and those of cgroups. The same layout
 * is in `zygote/order.rs`. */
struct limit { uint32_t resource, reserved; uint64_t soft, hard; };
struct order {
	uint32_t version, limits, old_groups, has_unified;
	uint32_t id, has_workspace, reserved[2]; /* id: uid and gid of the program, inside; 0: those that it has */
	struct limit limit[16], open_files;
};
enum { VERSION = 1, KEPT_SYNC = 4, KEPT_ARRIVAL = 5, FIRST_FREE = 6, ABOVE_ALL = 64 };
enum place { PID, USER, MNT, NET, IPC, UTS, CGROUP, RULES, INPUT, OUTPUT, ERROR, CONTROL, SYNC, ARRIVAL, PLACES };
enum { MOST = PLACES + 8 };

/* Steps of `error.rs`, by their place in its list. */
enum step { START = 0, GROUP = 1, STDIO = 18, NEW_SESSION = 19, RLIMITS = 20, IDENTITY = 21, DIRECTORY = 22, LANDLOCK = 23,
	SECCOMP = 24, NAMESPACES = 13, CAPABILITIES = 16 };

static struct sock_filter filter[4096];
static unsigned short filter_length;
static struct order order;
static int place[MOST];
static int born; /* whether the interpreter was forked */

static void tell(enum step step) {
	int number = errno;
	char report[5] = {(char)step};
	memcpy(report + 1, &number, sizeof number);
	send(place[SYNC], report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void must(int holds, enum step step) {
	if (!holds) {
		tell(step);
		_exit(1);
	}
}

/* Runs `part` in a process that shares everything in memory with this one, which waits until it has ended. Only a process
 * that was forked there returns 0. The system call is made in place: a function that returned in the child would take the
 * return address from under the parent. */
__attribute__((noinline)) static long share(struct clone_args *arguments, void (*part)(void)) {
	long result;
#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(result)
		: "0"((long)SYS_clone3), "D"(arguments), "S"(sizeof *arguments) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_clone3, first __asm__("x0") = (long)arguments,
		second __asm__("x1") = sizeof *arguments;
	__asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
	result = first;
#else
#error "the zygote knows x86-64 and ARM64"
#endif
	if (result == 0)
		part();
	return result;
}

static void end_of(long process, enum step step) {
	if (process < 0) {
		errno = (int)-process;
		tell(step);
	} else {
		while (waitpid((pid_t)process, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

static void inner(void) {
	pid_t interpreter = fork();
	if (interpreter == 0) {
		born = 1;
		return;
	}
	must(interpreter > 0, START);
	_exit(0);
}

static void outer(void) {
	for (uint32_t at = 0; at < order.old_groups; at++)
		must(write(place[PLACES + at], "0", 1) == 1, GROUP);
	must(setns(place[PID], CLONE_NEWPID) == 0, NAMESPACES);
	struct clone_args arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
	long process = share(&arguments, inner);
	if (born)
		return;
	end_of(process, START);
	_exit(0);
}

static void enter_namespaces(void) {
	/* The user namespace first: the others are entered with the capabilities that it gives. */
	static const struct { enum place place; int kind; } all[] = {{USER, CLONE_NEWUSER}, {MNT, CLONE_NEWNS},
		{NET, CLONE_NEWNET}, {IPC, CLONE_NEWIPC}, {UTS, CLONE_NEWUTS}, {CGROUP, CLONE_NEWCGROUP}};
	for (size_t at = 0; at < sizeof all / sizeof *all; at++)
		must(setns(place[all[at].place], all[at].kind) == 0, NAMESPACES);
}

static int limit(const struct limit *wanted) {
	struct rlimit present;
	if (getrlimit(wanted->resource, &present))
		return -1;
	/* Only ever lowers: raising a hard limit needs a right that even root may lack. */
	rlim_t hard = wanted->hard < present.rlim_max ? wanted->hard : present.rlim_max;
	rlim_t soft = wanted->soft < hard ? wanted->soft : hard;
	return setrlimit(wanted->resource, &(struct rlimit){soft, hard});
}

static void lower_limits(void) {
	for (uint32_t at = 0; at < order.limits; at++)
		must(limit(&order.limit[at]) == 0, RLIMITS);
}

static void take_identity(void) {
	gid_t id = order.id;
	if (id) {
		must(syscall(SYS_setgroups, 0, NULL) == 0, IDENTITY);
		must(syscall(SYS_setresgid, id, id, id) == 0, IDENTITY);
		must(syscall(SYS_setresuid, id, id, id) == 0, IDENTITY);
	}
}

static void drop_capabilities(void) {
	for (int capability = 0; capability <= CAP_LAST_CAP; capability++)
		must(prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0 || errno == EINVAL, CAPABILITIES);
	must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0, CAPABILITIES);
	must(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP
		| SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE
		| SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0) == 0, CAPABILITIES);
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, CAPABILITIES);
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
	take_identity();
	must(syscall(SYS_capset, &header, none) == 0, CAPABILITIES);
}

/* Puts descriptors where the driver expects them. Those of the order lie above. */
static void arrange(void) {
	must(dup2(place[INPUT], 0) == 0 && dup2(place[OUTPUT], 1) == 1, STDIO);
	must(dup2(place[ERROR], 2) == 2 && dup2(place[CONTROL], 3) == 3, STDIO);
}

/* Closes all but those and the two that are needed to the end. */
static void keep_two(void) {
	int sync = fcntl(place[SYNC], F_DUPFD, ABOVE_ALL), arrival = fcntl(place[ARRIVAL], F_DUPFD, ABOVE_ALL);
	must(sync >= 0 && arrival >= 0, STDIO);
	must(dup2(sync, KEPT_SYNC) == KEPT_SYNC && dup2(arrival, KEPT_ARRIVAL) == KEPT_ARRIVAL, STDIO);
	place[SYNC] = KEPT_SYNC;
	place[ARRIVAL] = KEPT_ARRIVAL;
	must(syscall(SYS_close_range, FIRST_FREE, ~0U, 0) == 0, STDIO);
}

static int load_filter(void) {
	struct sock_fprog program = {filter_length, filter};
	unsigned int flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	/* Before Linux 5.19 a signal that comes while a call is being judged has it made anew. */
	int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | 1 << 5, &program);
	if (listener < 0 && errno == EINVAL)
		listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	return listener;
}

static int hand_over(int listener) {
	char note = 'x', space[CMSG_SPACE(sizeof listener)] = {0};
	struct iovec part = {&note, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof listener);
	memcpy(CMSG_DATA(header), &listener, sizeof listener);
	return sendmsg(place[SYNC], &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* Waits until the process between is gone and init is the parent: an init that finds itself without a child takes its
 * program for dead. No event tells of it, and it is a matter of microseconds. */
static void wait_for_init(void) {
	while (getppid() != 1)
		sched_yield();
}

/* In the interpreter, before any Python. */
static void lock_down(void) {
	pid_t self = (pid_t)syscall(SYS_getpid);
	enter_namespaces();
	arrange();
	must(setsid() >= 0, NEW_SESSION);
	lower_limits();
	drop_capabilities();
	umask(022);
	must(chdir(order.has_workspace ? "/workspace" : "/") == 0 || chdir("/") == 0, DIRECTORY);
	must(syscall(SYS_landlock_restrict_self, place[RULES], 0) == 0, LANDLOCK);
	/* As after exec: by the change of its ids it became nobody's to look into, its own eyes included. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	keep_two();
	wait_for_init();
	int listener = load_filter();
	must(listener >= 0 && hand_over(listener) == 0, SECCOMP);
	close(listener);
	must(limit(&order.open_files) == 0, RLIMITS);
	must(write(place[ARRIVAL], &self, sizeof self) == sizeof self, START);
	close(place[ARRIVAL]);
	close(place[SYNC]);
}

/* Takes one order. Returns the number of descriptors that came with it, or does not return. */
static int receive(int orders) {
	char space[CMSG_SPACE(sizeof(int) * MOST)];
	struct iovec part = {&order, sizeof order};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t length;
	while ((length = recvmsg(orders, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
		;
	/* The supervisor has gone, or is not of this version. */
	if (length != sizeof order || order.version != VERSION || message.msg_flags & MSG_CTRUNC)
		_exit(length != 0);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int count = header ? (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
	if (count < PLACES || (uint32_t)count != PLACES + order.old_groups + order.has_unified || order.limits > 16)
		_exit(1);
	memcpy(place, CMSG_DATA(header), sizeof(int) * (size_t)count);
	return count;
}

/* Serves orders that come on a descriptor. Returns in each interpreter, and never in the zygote. */
static object *serve(object *self, object *argument) {
	(void)self;
	int orders = (int)PyLong_AsLong(argument);
	/* Linux refuses this to a process with several threads, of which a fork would lose all but one. */
	if (syscall(SYS_unshare, CLONE_THREAD))
		_exit(1);
	if (send(orders, "r", 1, MSG_NOSIGNAL) != 1)
		_exit(0);
	for (;;) {
		int count = receive(orders);
		struct clone_args arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
		if (order.has_unified) {
			arguments.flags |= CLONE_INTO_CGROUP;
			arguments.cgroup = (uint64_t)place[count - 1];
		}
		PyOS_BeforeFork();
		long process = share(&arguments, outer);
		if (born) {
			lock_down();
			PyOS_AfterFork_Child();
			return PyLong_FromLong(0);
		}
		PyOS_AfterFork_Parent();
		end_of(process, START);
		while (count > 0)
			close(place[--count]);
	}
}

/* Reads the filter from a descriptor: instructions, one after the other. */
static object *load(object *self, object *argument) {
	(void)self;
	ssize_t length = pread((int)PyLong_AsLong(argument), filter, sizeof filter, 0);
	if (length <= 0 || (size_t)length == sizeof filter || length % (ssize_t)sizeof *filter)
		_exit(1);
	filter_length = (unsigned short)((size_t)length / sizeof *filter);
	return PyLong_FromLong(filter_length);
}

static struct method_def methods[] = {
	{"load", load, METHOD_WITH_ONE_ARGUMENT, "Reads the filter of system calls from a descriptor."},
	{"serve", serve, METHOD_WITH_ONE_ARGUMENT, "Takes orders from a descriptor. Returns in each interpreter that is forked."},
	{NULL, NULL, 0, NULL},
};

static struct module_def module = {.name = "repltool_native", .size = -1, .methods = methods};

__attribute__((visibility("default"))) object *PyInit_repltool_native(void) {
	module.base.references = 1;
	return PyModule_Create2(&module, ABI_VERSION);
}
