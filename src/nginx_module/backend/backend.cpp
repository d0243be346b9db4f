#include "nginx_module/backend/backend.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/cluster.hpp"
#include "nginx_module/backend/node.hpp"

#include <memory>
#include <vector>

namespace nginx_module {

namespace {

/// A backend that asks one node: the only Redis, or the master that Sentinels name.
class SingleNode final : public Backend {
  public:
    SingleNode(const BackendConf &conf, ngx_log_t *log)
        : Backend(conf, ngx_pid),
          node_(conf, group_, counters_, log, [&](AddressSource::Callbacks &callbacks) {
              return make_address_source(callbacks, conf, log);
          }) {}

    std::variant<redis_client::Command *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckCallbacks &callbacks) override {
        return node_.ask(charges, callbacks);
    }
    void abandon(redis_client::Command &check) override { node_.abandon(check); }
    void hand_over(redis_client::Command &check, std::span<redis_client::Charge> charges,
                   redis_client::CheckCallbacks &callbacks) override {
        node_.hand_over(check, charges, callbacks);
    }
    void refund(std::span<redis_client::Charge> charges) override { node_.refund(charges); }
    void settle(const redis_client::SettlementOrder &order) override { node_.settle(order); }
    void send_now() override { node_.send_now(); }
    void release(redis_client::Permit &permit) override { node_.release(permit); }

  private:
    Node node_;
};

/// The worker's running backends, by their indexes in the one configuration that it has. Null: no
/// rule uses the backend.
std::vector<std::unique_ptr<Backend>> &running_backends() {
    static std::vector<std::unique_ptr<Backend>> running;
    return running;
}

std::unique_ptr<Backend> make_backend(const BackendConf &conf, ngx_log_t *log) {
    if (conf.mode == Mode::cluster) {
        return std::make_unique<Cluster>(conf, log);
    }
    return std::make_unique<SingleNode>(conf, log);
}

} // namespace

Backend &backend_of(const BackendConf &conf) {
    auto &running = running_backends();
    if (conf.index >= running.size()) {
        running.resize(conf.index + 1);
    }
    auto &backend = running[conf.index];
    if (backend == nullptr) {
        backend = make_backend(conf, ngx_cycle->log);
    }
    return *backend;
}

void start_backends(const MainConf &conf) {
    for (const auto &backend : conf.backends) {
        if (backend->is_used()) {
            backend_of(*backend);
        }
    }
}

void stop_backends() {
    for (const auto &backend : running_backends()) {
        if (backend != nullptr) {
            backend->send_now();
        }
    }
    running_backends().clear();
}

} // namespace nginx_module
