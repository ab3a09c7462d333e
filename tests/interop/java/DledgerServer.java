import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;

/** A member of a DLedger group of Java's own library, with its defaults: id, group, peers, folder, bytes of a data file. */
public final class DledgerServer {
    public static void main(String[] args) {
        DLedgerConfig config = new DLedgerConfig();
        config.setSelfId(args[0]);
        config.setGroup(args[1]);
        config.setPeers(args[2]);
        config.setStoreBaseDir(args[3]);
        config.setStoreType(DLedgerConfig.FILE);
        config.setMappedFileSizeForEntryData(Integer.parseInt(args[4]));
        // A disk that is rather full must not end the measurement.
        config.setDiskSpaceRatioToCheckExpired(0.99f);
        config.setDiskSpaceRatioToForceClean(0.99f);
        config.setEnableDiskForceClean(false);
        DLedgerServer server = new DLedgerServer(config);
        server.startup();
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdown));
    }
}
