// Runs simulated fleets where nothing goes wrong, and sends each command that their Redis gets to a
// real one, too, on the clock of the simulated one. Prints where the replies differ in a byte.
//
//   true_to_redis RUNS
//
// Environment: RATE_LIMIT_REDIS_PORT, RATE_LIMIT_CLOCK (see t/lib/clock.c).
#include "simulation/simulated_fleet.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace simulation;

class RealRedis final : public SimulatedRedis::Observer {
  public:
    RealRedis()
        : socket_(socket(AF_INET, SOCK_STREAM, 0)),
          clock_(open(std::getenv("RATE_LIMIT_CLOCK"), O_WRONLY)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port =
            htons(static_cast<uint16_t>(std::atoi(std::getenv("RATE_LIMIT_REDIS_PORT"))));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        // A reply that is shorter than the simulated one would be waited for until then.
        const timeval patience{.tv_sec = 5, .tv_usec = 0};
        const int yes = 1;
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        if (connect(socket_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0) {
            std::perror("connect");
            std::exit(2);
        }
    }
    ~RealRedis() {
        close(socket_);
        close(clock_);
    }
    RealRedis(const RealRedis &) = delete;
    RealRedis &operator=(const RealRedis &) = delete;

    /// Begins a run of this seed, with nothing in Redis.
    void begin(uint64_t seed) {
        seed_ = seed;
        lost_data();
    }

    void replied(Time clock, std::string_view command, std::string_view reply) override {
        if (differs_) {
            return;
        }
        const int64_t now = clock.count();
        (void)!pwrite(clock_, &now, sizeof(now), 0);
        ++commands_;
        const std::string real = ask(command, reply.size());
        if (real != reply) {
            differs_ = true;
            std::printf("seed %llu at %lld: %s\nreal      %s\nsimulated %s\n",
                        static_cast<unsigned long long>(seed_), static_cast<long long>(now),
                        readable(command).c_str(), readable(real).c_str(), readable(reply).c_str());
        }
    }

    void lost_data() override {
        (void)ask("*1\r\n$8\r\nFLUSHALL\r\n", ok.size());
        forgot_scripts();
    }
    void forgot_scripts() override {
        (void)ask("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n", ok.size());
    }

    bool differs() const { return differs_; }
    uint64_t commands() const { return commands_; }

  private:
    static constexpr std::string_view ok = "+OK\r\n";

    std::string ask(std::string_view command, size_t size_of_reply) {
        std::string_view unsent = command;
        while (!unsent.empty()) {
            const ssize_t sent = send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
            if (sent <= 0) {
                return "(nothing can be sent)";
            }
            unsent.remove_prefix(static_cast<size_t>(sent));
        }
        std::string reply(size_of_reply, '\0');
        size_t received = 0;
        while (received < reply.size()) {
            const ssize_t more = recv(socket_, reply.data() + received, reply.size() - received, 0);
            if (more <= 0) {
                break;
            }
            received += static_cast<size_t>(more);
        }
        reply.resize(received);
        return reply;
    }

    static std::string readable(std::string_view bytes) {
        std::string text;
        for (const char c : bytes.substr(0, 2000)) {
            std::array<char, 5> hex{};
            std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned char>(c));
            text += c >= ' ' && c < 127 ? std::string(1, c) : std::string(hex.data());
        }
        return text;
    }

    int socket_;
    int clock_;
    uint64_t seed_ = 0;
    uint64_t commands_ = 0;
    bool differs_ = false;
};

} // namespace

int main(int count, char **words) {
    const uint64_t runs = count > 1 ? std::strtoull(words[1], nullptr, 10) : 1;
    RealRedis real;
    Journal journal;
    uint64_t done = 0;
    for (uint64_t seed = 1; done < runs && !real.differs(); ++seed) {
        SimulatedFleet fleet({.seed = seed, .length = Time{4'000'000}}, journal);
        if (fleet.observe(real)) {
            real.begin(seed);
            (void)fleet.run();
            ++done;
        }
    }
    std::printf("%llu commands of %llu runs\n", static_cast<unsigned long long>(real.commands()),
                static_cast<unsigned long long>(done));
    return real.differs() ? 1 : 0;
}
