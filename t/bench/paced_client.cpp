// Sends requests at a given rate, whatever the answers do, and prints a line for each answer:
//
//     paced_client PORT RATE SECONDS CONNECTIONS PATH...
//
//     number of the path, status, when it was due, sent and answered
//
// The paths take turns. The requests are due at random, so many a second on average, as those of
// many clients are; the same ones in each run. One that finds no idle connection waits for it, and
// what it waits counts, for it is due already. Times are microseconds since the epoch.

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace {

using std::chrono::microseconds;

[[noreturn]] void fail(const char *what) {
    std::perror(what);
    std::exit(1);
}

/// So that it can be compared with what others have noted on this host.
microseconds now() {
    return std::chrono::duration_cast<microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
}

struct Request {
    size_t path;
    microseconds due;
    microseconds sent{};
};

struct Connection {
    int socket = -1;
    Request request{};
    std::string answer;
};

uint32_t number_of(std::string_view text) {
    uint32_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

/// Returns 0 if the answer is not complete. Each of nginx's own has its length.
size_t size_of(std::string_view answer) {
    constexpr std::string_view end_of_head = "\r\n\r\n";
    constexpr std::string_view length = "\r\nContent-Length: ";
    const size_t end = answer.find(end_of_head);
    const size_t at = answer.substr(0, end).find(length);
    if (end == std::string_view::npos || at == std::string_view::npos) {
        return 0;
    }
    const size_t size = end + end_of_head.size() + number_of(answer.substr(at + length.size()));
    return answer.size() >= size ? size : 0;
}

class Client {
  public:
    Client(uint32_t port, uint32_t rate, size_t connections, std::vector<std::string> requests)
        : requests_(std::move(requests)), gap_(rate / 1e6), connections_(connections) {
        timer_ = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
        epoll_ = epoll_create1(0);
        if (timer_ < 0 || epoll_ < 0) {
            fail("timerfd or epoll");
        }
        watch(timer_, nullptr);
        for (Connection &connection : connections_) {
            connect(connection, port);
        }
    }

    void run(microseconds duration) {
        due_ = now();
        end_ = due_ + duration;
        plan_next();
        set_timer();
        while (due_ < end_ || idle_.size() < connections_.size()) {
            std::array<epoll_event, 64> events;
            const int count = epoll_wait(epoll_, events.data(), events.size(), -1);
            for (int i = 0; i < count; ++i) {
                if (auto *connection = static_cast<Connection *>(events[i].data.ptr)) {
                    receive(*connection);
                }
            }
            for (const microseconds time = now(); due_ <= time && due_ < end_; plan_next()) {
                waiting_.push_back({.path = turn_++ % requests_.size(), .due = due_});
            }
            set_timer();
            send_waiting();
        }
    }

  private:
    void watch(int descriptor, Connection *connection) const {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = connection;
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
            fail("epoll_ctl");
        }
    }

    void connect(Connection &connection, uint32_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int on = 1;
        connection.socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connection.socket < 0 ||
            ::connect(connection.socket, reinterpret_cast<const sockaddr *>(&address),
                      sizeof(address)) != 0 ||
            setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
            fail("connect");
        }
        watch(connection.socket, &connection);
        idle_.push_back(&connection);
    }

    void plan_next() {
        exact_due_us_ += gap_(random_);
        due_ += microseconds(static_cast<int64_t>(exact_due_us_));
        exact_due_us_ -= static_cast<double>(static_cast<int64_t>(exact_due_us_));
    }

    void set_timer() const {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(due_);
        itimerspec time{}; // none at the end
        if (due_ < end_) {
            time.it_value.tv_sec = seconds.count();
            time.it_value.tv_nsec = std::chrono::nanoseconds(due_ - seconds).count();
        }
        timerfd_settime(timer_, TFD_TIMER_ABSTIME, &time, nullptr);
    }

    void send_waiting() {
        while (!waiting_.empty() && !idle_.empty()) {
            Connection &connection = *idle_.front();
            idle_.pop_front();
            connection.request = waiting_.front();
            waiting_.pop_front();
            const std::string &text = requests_[connection.request.path];
            connection.request.sent = now();
            if (send(connection.socket, text.data(), text.size(), MSG_NOSIGNAL) !=
                static_cast<ssize_t>(text.size())) {
                fail("send");
            }
        }
    }

    void receive(Connection &connection) {
        std::array<char, 4096> bytes;
        const ssize_t size = recv(connection.socket, bytes.data(), bytes.size(), 0);
        if (size <= 0) {
            fail("recv");
        }
        connection.answer.append(bytes.data(), static_cast<size_t>(size));
        if (size_of(connection.answer) == 0) {
            return;
        }
        const Request &request = connection.request;
        std::printf("%zu %.3s %lld %lld %lld\n", request.path, connection.answer.c_str() + 9,
                    static_cast<long long>(request.due.count()),
                    static_cast<long long>(request.sent.count()),
                    static_cast<long long>(now().count()));
        connection.answer.clear();
        idle_.push_back(&connection);
    }

    std::vector<std::string> requests_; // one for each path
    std::minstd_rand random_;
    std::exponential_distribution<double> gap_; // between two requests, microseconds
    double exact_due_us_ = 0;                   // what due_ leaves out
    microseconds due_{};                        // when the next request is
    microseconds end_{};
    size_t turn_ = 0;
    std::vector<Connection> connections_;
    std::deque<Connection *> idle_;
    std::deque<Request> waiting_; // requests that are due
    int timer_ = -1;
    int epoll_ = -1;
};

} // namespace

int main(int count, char **arguments) {
    if (count < 6) {
        std::fputs("usage: paced_client PORT RATE SECONDS CONNECTIONS PATH...\n", stderr);
        return 2;
    }
    std::vector<std::string> requests;
    for (int i = 5; i < count; ++i) {
        requests.push_back("GET " + std::string(arguments[i]) +
                           " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    Client client(number_of(arguments[1]), number_of(arguments[2]), number_of(arguments[4]),
                  std::move(requests));
    client.run(std::chrono::seconds(number_of(arguments[3])));
}
