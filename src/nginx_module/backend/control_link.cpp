#include "nginx_module/backend/control_link.hpp"

#include "nginx_module/backend/address_source.hpp"
#include "nginx_module/backend/cluster.hpp"
#include "nginx_module/backend/cluster_control_link.hpp"
#include "nginx_module/backend/control_connection.hpp"
#include "nginx_module/util.hpp"

#include <memory>
#include <vector>

namespace nginx_module {

using redis_client::ControlCommand;

namespace {

/// A link to one node: the only Redis, or the master that Sentinels name.
class SingleControlLink final : public ControlLink {
  public:
    SingleControlLink(const BackendConf &conf, ngx_log_t *log)
        : connection_(conf, log, [&](AddressSource::Callbacks &callbacks) {
              return make_address_source(callbacks, conf, log);
          }) {}

    void run(ControlCommand &command) override {
        command.begin(now());
        connection_.run(command);
    }
    void cancel(const ControlCommand &command) override { (void)connection_.cancel(command); }

  private:
    ControlConnection connection_;
};

/// The worker's links, by the indexes of the backends. Null: nobody has asked for it.
std::vector<std::unique_ptr<ControlLink>> &links() {
    static std::vector<std::unique_ptr<ControlLink>> all;
    return all;
}

std::unique_ptr<ControlLink> make_link(const BackendConf &conf, ngx_log_t *log) {
    if (conf.mode == Mode::cluster) {
        return std::make_unique<ClusterControlLink>(conf, static_cast<Cluster &>(backend_of(conf)),
                                                    log);
    }
    return std::make_unique<SingleControlLink>(conf, log);
}

} // namespace

ControlLink &control_link_of(const BackendConf &conf) {
    auto &all = links();
    if (conf.index >= all.size()) {
        all.resize(conf.index + 1);
    }
    auto &link = all[conf.index];
    if (link == nullptr) {
        link = make_link(conf, ngx_cycle->log);
    }
    return *link;
}

void stop_control_links() {
    links().clear();
}

} // namespace nginx_module
